#include "libmeg/numpy/npy.h"

#include <fmt/format.h>

#include "libmeg/numpy/internal/npy_header.h"

// Byte for byte what numpy.save writes: cache files are compared with Megatron's. Version 1.0
// always does, as 64 dimensions of 20 digits are far from its limit of 64 KiB.

namespace meg::numpy {
namespace {

constexpr std::string_view kMagicAndVersion("\x93NUMPY\x01\x00", 8);
/// numpy pads the header so that the elements begin at a multiple of this.
constexpr size_t kAlignment = 64;

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += fmt::format("{}{}", i > 0 ? ", " : "", shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace

Result<std::string> npy_header(DType dtype, std::span<const int64_t> shape) {
  const std::string_view descr = npy_descr(dtype);
  if (descr.empty()) {
    return make_error(StatusCode::kUnsupported, "numpy has no type {}", dtype_name(dtype));
  }
  std::string dictionary = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                       descr, shape_text(shape));
  // numpy leaves room for the first dimension to grow to 21 digits.
  constexpr size_t kGrowth = 21;
  if (!shape.empty()) dictionary.append(kGrowth - fmt::formatted_size("{}", shape[0]), ' ');
  const size_t before = kMagicAndVersion.size() + sizeof(uint16_t);
  const size_t total = (before + dictionary.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  dictionary.resize(total - before - 1, ' ');
  dictionary += '\n';
  const auto length = dictionary.size();
  std::string header(kMagicAndVersion);
  header += static_cast<char>(length & 0xff);
  header += static_cast<char>(length >> 8);
  return header + dictionary;
}

Result<NpyFile> NpyFile::open(const std::string& path, io::MappedFile::Access access) {
  NpyFile npy;
  MEG_ASSIGN_OR_RETURN(npy.file_, io::MappedFile::open(path, access));
  MEG_ASSIGN_OR_RETURN(NpyHeader header, read_npy_header(npy.file_.bytes(), path));
  npy.dtype_ = header.dtype;
  npy.shape_ = std::move(header.shape);
  npy.size_ = header.elements;
  npy.offset_ = header.offset;
  return npy;
}

Result<const std::byte*> NpyFile::first_element(DType dtype, size_t alignment) const {
  if (dtype != dtype_) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected {}, found {}", path(),
                      dtype_name(dtype), dtype_name(dtype_));
  }
  const std::byte* first = file_.bytes().data() + offset_;
  // The mapping begins at a page, so this is the header's length. Files of old numpy versions are
  // aligned to 16 bytes, which is enough; a hand-made file need not be at all.
  if (reinterpret_cast<uintptr_t>(first) % alignment != 0) {
    return make_error(StatusCode::kCorruption,
                      "{}: byte {}: expected elements at a multiple of {} bytes", path(), offset_,
                      alignment);
  }
  return first;
}

}  // namespace meg::numpy
