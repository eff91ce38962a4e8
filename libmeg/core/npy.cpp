#include "libmeg/core/npy.h"

#include <fmt/format.h>

namespace meg {
namespace {

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr size_t kAlignment = 64;

/// numpy's type string, such as "<i4"; empty where it has none.
std::string_view descr_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "|b1";
    case DType::kUint8:
      return "|u1";
    case DType::kInt8:
      return "|i1";
    case DType::kUint16:
      return "<u2";
    case DType::kInt16:
      return "<i2";
    case DType::kUint32:
      return "<u4";
    case DType::kInt32:
      return "<i4";
    case DType::kUint64:
      return "<u8";
    case DType::kInt64:
      return "<i8";
    case DType::kFloat16:
      return "<f2";
    case DType::kFloat32:
      return "<f4";
    case DType::kFloat64:
      return "<f8";
    case DType::kComplex64:
      return "<c8";
    case DType::kComplex128:
      return "<c16";
    default:
      return {};
  }
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += fmt::format("{}{}", i > 0 ? ", " : "", shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace

Result<std::string> npy_header(DType dtype, std::span<const int64_t> shape) {
  const std::string_view descr = descr_of(dtype);
  if (descr.empty()) {
    return make_error(StatusCode::kUnsupported, "numpy has no type {}", dtype_name(dtype));
  }
  std::string dictionary = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                       descr, shape_text(shape));
  // numpy leaves room for the first dimension to grow to 21 digits.
  constexpr size_t kGrowth = 21;
  if (!shape.empty()) dictionary.append(kGrowth - fmt::formatted_size("{}", shape[0]), ' ');
  const size_t before = kMagic.size() + sizeof(uint16_t);
  const size_t total = (before + dictionary.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  dictionary.resize(total - before - 1, ' ');
  dictionary += '\n';
  const auto length = dictionary.size();
  std::string header(kMagic);
  header += static_cast<char>(length & 0xff);
  header += static_cast<char>(length >> 8);
  return header + dictionary;
}

}  // namespace meg
