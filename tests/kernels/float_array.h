#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/float_convert.h"
#include "libmeg/kernels/float_type.h"

namespace meg::test {

inline constexpr kernels::FloatType kFloatTypes[] = {
    kernels::FloatType::kFloat32, kernels::FloatType::kFloat16, kernels::FloatType::kBFloat16};

inline DType dtype_of(kernels::FloatType type) {
  if (type == kernels::FloatType::kFloat32) return DType::kFloat32;
  return type == kernels::FloatType::kFloat16 ? DType::kFloat16 : DType::kBFloat16;
}

inline std::string name_of(kernels::FloatType type) {
  return std::string(dtype_name(dtype_of(type)));
}

/// Half the distance between 1 and the next number: the error of one rounding, relative.
inline double rounding_error(kernels::FloatType type) {
  if (type == kernels::FloatType::kFloat32) return 0x1p-24;
  return type == kernels::FloatType::kFloat16 ? 0x1p-11 : 0x1p-8;
}

/// An array of any FloatType, made from fp32 and read as fp32.
class FloatArray {
 public:
  FloatArray(kernels::FloatType type, const std::vector<float>& values)
      : type_(type), bytes_(values.size() * static_cast<size_t>(kernels::float_type_size(type))) {
    const Status status = convert_floats(DType::kFloat32, std::as_bytes(std::span(values)),
                                         dtype_of(type), std::span(bytes_));
    static_cast<void>(status);
  }

  kernels::FloatType type() const { return type_; }

  void* data() { return bytes_.data(); }

  const void* data() const { return bytes_.data(); }

  size_t size_bytes() const { return bytes_.size(); }

  std::vector<float> floats() const {
    std::vector<float> values(bytes_.size() / static_cast<size_t>(kernels::float_type_size(type_)));
    const Status status =
        convert_floats(dtype_of(type_), std::as_bytes(std::span(bytes_)), DType::kFloat32,
                       std::as_writable_bytes(std::span(values)));
    static_cast<void>(status);
    return values;
  }

 private:
  kernels::FloatType type_;
  std::vector<std::byte> bytes_;
};

/// Normal numbers of the given width, the same in every run.
inline std::vector<float> normal_values(int64_t count, double width, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, width);
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(normal(engine)));
  return values;
}

/// Bytes of `values`, for comparisons of every bit.
inline std::string bits_of(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

}  // namespace meg::test
