#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"

namespace meg::checkpoint {

/// Maximum size of a safetensors header in bytes: the reference implementation's limit.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

/// Bytes of the little-endian length of the header with which a file begins.
inline constexpr size_t kSafetensorsLengthBytes = 8;

/// A tensor of a safetensors file: row-major, little-endian, without gaps.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;  ///< Each >= 0; empty: a scalar.
  uint64_t begin = 0;          ///< Offset of its first byte from the end of the header.
  uint64_t bytes = 0;          ///< The product of shape times dtype_size(dtype).
};

/// The header of a safetensors file.
struct SafetensorsHeader {
  std::vector<std::pair<std::string, std::string>>
      metadata;                            ///< `__metadata__`, which holds texts only.
  std::vector<SafetensorsTensor> tensors;  ///< As they lie in the file, one after the other.
};

/// Reads the JSON text of a header whose file has `data_bytes` after it. kCorruption where it
/// breaks a rule of the format (names once each; types and shapes that give the bytes between
/// data_offsets; tensors that cover the data exactly once, without holes), kUnsupported for types
/// of less than a byte; `name`, a path, starts errors.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                                   const std::string& name);

/// The layout of a file to be written.
struct SafetensorsLayout {
  /// The file's first bytes: the header's length, its JSON text and spaces up to a multiple of 8.
  std::string head;
  std::vector<uint64_t>
      offsets;  ///< Offset in the file of each tensor passed to lay_out_safetensors.
  std::vector<uint64_t> bytes;  ///< Size of each.
  uint64_t file_size = 0;
};

/// Lays out these tensors (ignoring their `begin` and `bytes`) as the reference implementation
/// does: larger element types first, then by name. kInvalidArgument for a name that occurs twice,
/// is not UTF-8 or is `__metadata__`; kUnsupported for types that the format does not have;
/// kOutOfRange if sizes overflow.
Result<SafetensorsLayout> lay_out_safetensors(
    std::span<const SafetensorsTensor> tensors,
    std::span<const std::pair<std::string, std::string>> metadata);

}  // namespace meg::checkpoint
