#include "libmeg/checkpoint/container/torch_file/internal/torch_names.h"

#include <utility>

namespace meg::checkpoint {
namespace {

constexpr std::pair<DType, std::string_view> kStorageClasses[] = {
    {DType::kBool, "BoolStorage"},
    {DType::kUint8, "ByteStorage"},
    {DType::kInt8, "CharStorage"},
    {DType::kInt16, "ShortStorage"},
    {DType::kInt32, "IntStorage"},
    {DType::kInt64, "LongStorage"},
    {DType::kFloat16, "HalfStorage"},
    {DType::kBFloat16, "BFloat16Storage"},
    {DType::kFloat32, "FloatStorage"},
    {DType::kFloat64, "DoubleStorage"},
    {DType::kComplex64, "ComplexFloatStorage"},
    {DType::kComplex128, "ComplexDoubleStorage"},
};

}  // namespace

std::string_view torch_storage_class(DType dtype) {
  for (const auto& [known, name] : kStorageClasses) {
    if (known == dtype) return name;
  }
  return {};
}

std::optional<DType> dtype_of_torch_storage(std::string_view class_name) {
  for (const auto& [dtype, name] : kStorageClasses) {
    if (name == class_name) return dtype;
  }
  return std::nullopt;
}

}  // namespace meg::checkpoint
