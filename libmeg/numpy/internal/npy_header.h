#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"

namespace meg::numpy {

/// The header of a .npy file, checked against the file's size.
struct NpyHeader {
  DType dtype = DType::kInt32;
  std::vector<int64_t> shape;
  int64_t elements = 0;  ///< The product of the shape; 1 for a scalar.
  size_t offset = 0;     ///< Where they begin, in bytes; they end with the file.
};

/// Reads the header of a whole .npy file of version 1.0, 2.0 or 3.0, called `name` in errors.
/// kCorruption if it is damaged or the elements after it do not fit; kUnsupported for anything but
/// a plain little-endian array in C order: objects, structures, texts, big-endian numbers. Mirrors
/// numpy/lib/format.py: read_magic, _read_array_header.
Result<NpyHeader> read_npy_header(std::span<const std::byte> file, const std::string& name);

/// numpy's type string of a dtype, such as "<i4"; empty if it has none.
std::string_view npy_descr(DType dtype);

}  // namespace meg::numpy
