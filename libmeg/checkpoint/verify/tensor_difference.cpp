#include "libmeg/checkpoint/verify/tensor_difference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "libmeg/base/float_convert.h"
#include "libmeg/checkpoint/verify/internal/float_scan.h"

// Most blocks are equal byte for byte and are passed over by memcmp; only others are widened to
// float64, where 16-bit and 32-bit numbers can be compared with each other.

namespace meg::checkpoint {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Elements that are widened together.
constexpr size_t kBlock = 4096;

bool fits_float32(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32;
}

/// Elements as float64, which holds every one of these types exactly.
void widen(DType dtype, std::span<const std::byte> elements, std::span<double> into) {
  if (fits_float32(dtype)) {
    std::vector<float> floats(into.size());
    if (convert_floats(dtype, elements, DType::kFloat32, std::as_writable_bytes(std::span(floats)))
            .ok()) {
      std::copy(floats.begin(), floats.end(), into.begin());
      return;
    }
  }
  const auto size = static_cast<size_t>(dtype_size(dtype));
  for (size_t i = 0; i < into.size(); ++i) {
    into[i] = widened_element(dtype, elements.data() + i * size);
  }
}

/// Without a tolerance the bits count, so 0 and -0 differ; NaNs are equal whatever their bits, as
/// they say the same.
bool is_equal(double a, double b, const Tolerance& tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (tolerance.is_exact()) return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  // Infinities have no distance: the tolerance of an infinite b would cover every a.
  if (!std::isfinite(a) || !std::isfinite(b)) return a == b;
  // The formula of numpy.allclose: relative to b.
  return std::abs(a - b) <= tolerance.atol + tolerance.rtol * std::abs(b);
}

void add_sizes(double a, double b, ElementDifferences* found) {
  const bool both_finite = std::isfinite(a) && std::isfinite(b);
  const double difference = both_finite ? std::abs(a - b) : kInfinity;
  found->max_abs = std::max(found->max_abs, difference);
  if (difference > 0) {
    const bool has_ratio = both_finite && b != 0;
    found->max_rel = std::max(found->max_rel, has_ratio ? difference / std::abs(b) : kInfinity);
  }
}

ElementDifferences compare_floats(DType a_dtype, std::span<const std::byte> a, DType b_dtype,
                                  std::span<const std::byte> b, int64_t first,
                                  const Tolerance& tolerance) {
  const auto a_size = static_cast<size_t>(dtype_size(a_dtype));
  const auto b_size = static_cast<size_t>(dtype_size(b_dtype));
  const size_t count = a.size() / a_size;
  std::vector<double> a_wide(std::min(kBlock, count));
  std::vector<double> b_wide(a_wide.size());
  ElementDifferences found;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t size = std::min(kBlock, count - begin);
    const std::span<const std::byte> a_block = a.subspan(begin * a_size, size * a_size);
    const std::span<const std::byte> b_block = b.subspan(begin * b_size, size * b_size);
    if (a_dtype == b_dtype && std::memcmp(a_block.data(), b_block.data(), a_block.size()) == 0) {
      continue;
    }
    widen(a_dtype, a_block, std::span(a_wide).first(size));
    widen(b_dtype, b_block, std::span(b_wide).first(size));
    for (size_t i = 0; i < size; ++i) {
      if (is_equal(a_wide[i], b_wide[i], tolerance)) continue;
      if (found.count++ == 0) {
        found.first = first + static_cast<int64_t>(begin + i);
        found.first_a = element_text(a_dtype, a_block.data() + i * a_size);
        found.first_b = element_text(b_dtype, b_block.data() + i * b_size);
      }
      add_sizes(a_wide[i], b_wide[i], &found);
    }
  }
  return found;
}

// Types without an order, such as complex ones and fp8: equal or not is all that can be said.
ElementDifferences compare_bits(DType dtype, std::span<const std::byte> a,
                                std::span<const std::byte> b, int64_t first) {
  const auto size = static_cast<size_t>(dtype_size(dtype));
  ElementDifferences found;
  for (size_t at = 0; at < a.size(); at += size) {
    if (std::memcmp(a.data() + at, b.data() + at, size) == 0) continue;
    if (found.count++ > 0) continue;
    found.first = first + static_cast<int64_t>(at / size);
    found.first_a = element_text(dtype, a.data() + at);
    found.first_b = element_text(dtype, b.data() + at);
  }
  return found;
}

}  // namespace

void ElementDifferences::append(const ElementDifferences& next) {
  // Earlier findings precede: their first difference stays the first one.
  if (next.count == 0) return;
  if (count == 0) {
    *this = next;
    return;
  }
  count += next.count;
  max_abs = std::max(max_abs, next.max_abs);
  max_rel = std::max(max_rel, next.max_rel);
}

bool are_comparable(DType a, DType b) { return a == b || (is_scannable(a) && is_scannable(b)); }

ElementDifferences compare_elements(DType a_dtype, std::span<const std::byte> a, DType b_dtype,
                                    std::span<const std::byte> b, int64_t first,
                                    const Tolerance& tolerance) {
  if (is_scannable(a_dtype)) return compare_floats(a_dtype, a, b_dtype, b, first, tolerance);
  return compare_bits(a_dtype, a, b, first);
}

}  // namespace meg::checkpoint
