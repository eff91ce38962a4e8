#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "libmeg/base/dtype.h"

namespace meg::checkpoint {

/// How close two elements must be to count as equal: |a - b| <= atol + rtol * |b|; if both are 0,
/// the same bits, after widening if the dtypes differ. NaN equals NaN.
struct Tolerance {
  double atol = 0;
  double rtol = 0;

  bool is_exact() const { return atol == 0 && rtol == 0; }
};

/// The differences between two runs of elements.
struct ElementDifferences {
  int64_t count = 0;
  int64_t first = -1;  ///< Place of the first difference.
  std::string first_a, first_b;
  double max_abs = 0;  ///< Over the unequal elements; Inf if only one side is NaN or Inf.
  double max_rel = 0;  ///< Maximum of |a - b| / |b|; Inf if b is 0.

  /// Adds the differences of later elements.
  void append(const ElementDifferences& next);
};

/// Whether elements of two dtypes can be compared: equal dtypes, or both floating-point.
bool are_comparable(DType a, DType b);

/// Compares equally many elements of comparable dtypes. first: the place of the first one.
ElementDifferences compare_elements(DType a_dtype, std::span<const std::byte> a, DType b_dtype,
                                    std::span<const std::byte> b, int64_t first,
                                    const Tolerance& tolerance);

}  // namespace meg::checkpoint
