#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

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
  kUint32,
  kUint64,
  kFloat8E4m3fn,
  kFloat8E5m2,
  kComplex64,
  kComplex128,
};

/// Bytes of one element.
int dtype_size(DType dtype);

/// Such as "uint16" or "bfloat16".
std::string_view dtype_name(DType dtype);

/// The inverse of dtype_name.
std::optional<DType> dtype_from_name(std::string_view name);

/// The DType of a C++ type: (u)int8 to (u)int64, float or double.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kUint8;
  if constexpr (std::is_same_v<T, int8_t>) return DType::kInt8;
  if constexpr (std::is_same_v<T, uint16_t>) return DType::kUint16;
  if constexpr (std::is_same_v<T, int16_t>) return DType::kInt16;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kInt32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kInt64;
  if constexpr (std::is_same_v<T, float>) return DType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return DType::kFloat64;
  if constexpr (std::is_same_v<T, uint32_t>) return DType::kUint32;
  if constexpr (std::is_same_v<T, uint64_t>) return DType::kUint64;
}

}  // namespace meg
