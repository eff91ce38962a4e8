#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace meg {

/// Element types of datasets and tensors, in numpy's and torch's names.
enum class DType : uint8_t {
  kBool,
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
};

/// Bytes of one element.
int dtype_size(DType dtype);

/// Such as "uint16" or "bfloat16".
std::string_view dtype_name(DType dtype);

/// The inverse of dtype_name.
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace meg
