#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "libmeg/base/dtype.h"

namespace meg::checkpoint {

/// Suspicious values among the elements of a floating-point tensor. Places count elements in
/// row-major order; -1: none.
struct FloatScan {
  int64_t not_finite = 0;  ///< NaN, +Inf and -Inf.
  int64_t first_not_finite = -1;
  int64_t negative = 0;  ///< Values below zero, which excludes -0 and NaN.
  int64_t first_negative = -1;

  /// Adds the findings of later elements.
  void add(const FloatScan& later);
};

/// Whether scan_floats() supports the dtype: float16, bfloat16, float32, float64 and both float8.
bool is_scannable(DType dtype);

/// Adds the suspicious values among `bytes`, elements of a scannable dtype, to `scan`.
/// first_element: the place of the first one. Negative values are counted only if they are
/// suspicious.
void scan_floats(DType dtype, std::span<const std::byte> bytes, int64_t first_element,
                 bool count_negative, FloatScan* scan);

/// An element of one of these dtypes, widened exactly; NaN and Inf are kept.
double widened_element(DType dtype, const std::byte* element);

/// One element of any type as text: "0.25", "nan", "-3", "true".
std::string element_text(DType dtype, const std::byte* element);

}  // namespace meg::checkpoint
