#pragma once

#include <cstdint>

#include "libmeg/base/dtype.h"

namespace meg::dataset {

/// Calls use(T()) with the C++ type of an integer dtype.
template <class Use>
auto with_integer_type(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kUint8:
      return use(uint8_t());
    case DType::kInt8:
      return use(int8_t());
    case DType::kUint16:
      return use(uint16_t());
    case DType::kInt16:
      return use(int16_t());
    case DType::kInt32:
      return use(int32_t());
    default:
      return use(int64_t());
  }
}

/// The same for any dtype that datasets can have.
template <class Use>
auto with_item_type(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kFloat32:
      return use(float());
    case DType::kFloat64:
      return use(double());
    default:
      return with_integer_type(dtype, use);
  }
}

}  // namespace meg::dataset
