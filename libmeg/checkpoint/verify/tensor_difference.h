#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "libmeg/base/dtype.h"

namespace meg::checkpoint {

/// How near two elements must be to count as equal: |a - b| <= atol + rtol * |b|; both 0: the same
/// value in the same bits, after widening where the types differ. NaN equals NaN.
struct Tolerance {
  double atol = 0;
  double rtol = 0;

  bool is_exact() const { return atol == 0 && rtol == 0; }
};

/// Where two runs of elements differ.
struct ElementDifferences {
  int64_t count = 0;
  int64_t first = -1;  ///< Place of the first one.
  std::string first_a, first_b;
  double max_abs = 0;  ///< Over the unequal elements; Inf where only one side is NaN or Inf.
  double max_rel = 0;  ///< Of |a - b| / |b|; Inf where b is 0.

  /// Adds what was found further behind.
  void append(const ElementDifferences& next);
};

/// Whether elements of two types can be compared: the same type, or both floating-point.
bool are_comparable(DType a, DType b);

/// Compares equally many elements of comparable types. first: the place of the first of them.
ElementDifferences compare_elements(DType a_dtype, std::span<const std::byte> a, DType b_dtype,
                                    std::span<const std::byte> b, int64_t first,
                                    const Tolerance& tolerance);

}  // namespace meg::checkpoint
