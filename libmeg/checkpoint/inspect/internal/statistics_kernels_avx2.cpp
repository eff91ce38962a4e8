#include "libmeg/checkpoint/inspect/internal/statistics_kernels.h"

#ifdef __x86_64__

#include <immintrin.h>

#include <algorithm>
#include <bit>

#define MEG_TARGET_AVX2 __attribute__((target("avx2")))

namespace meg::checkpoint {
namespace {

constexpr size_t kLanes = StatisticsTotals::kLanes;

/// The sums of lanes 0-3 and 4-7.
struct Sums {
  __m256d sum[2], squares[2];
};

MEG_TARGET_AVX2 inline Sums load_sums(const StatisticsTotals& totals) {
  return {{_mm256_loadu_pd(&totals.sum[0]), _mm256_loadu_pd(&totals.sum[4])},
          {_mm256_loadu_pd(&totals.squares[0]), _mm256_loadu_pd(&totals.squares[4])}};
}

MEG_TARGET_AVX2 inline void store_sums(const Sums& sums, StatisticsTotals& totals) {
  for (size_t half = 0; half < 2; ++half) {
    _mm256_storeu_pd(&totals.sum[4 * half], sums.sum[half]);
    _mm256_storeu_pd(&totals.squares[4 * half], sums.squares[half]);
  }
}

MEG_TARGET_AVX2 inline void add_to_sums(int half, __m256d finite, Sums& sums) {
  sums.sum[half] = _mm256_add_pd(sums.sum[half], finite);
  sums.squares[half] = _mm256_add_pd(sums.squares[half], _mm256_mul_pd(finite, finite));
}

template <class T, size_t N>
void add_extremes(const std::array<T, N>& low, const std::array<T, N>& high,
                  StatisticsTotals& totals) {
  totals.min = std::min<double>(totals.min, *std::min_element(low.begin(), low.end()));
  totals.max = std::max<double>(totals.max, *std::max_element(high.begin(), high.end()));
}

MEG_TARGET_AVX2 void add_floats(const float* values, size_t count, StatisticsTotals& totals) {
  const __m256 infinity = _mm256_set1_ps(std::numeric_limits<float>::infinity());
  const __m256 minus_infinity = _mm256_set1_ps(-std::numeric_limits<float>::infinity());
  const __m256 sign = _mm256_set1_ps(-0.0F);
  __m256 low = infinity, high = minus_infinity;
  Sums sums = load_sums(totals);
  int64_t nan = 0, infinite = 0, zero = 0;
  const size_t whole = count / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    const __m256 x = _mm256_loadu_ps(values + i);
    const __m256 magnitude = _mm256_andnot_ps(sign, x);
    const __m256 is_finite = _mm256_cmp_ps(magnitude, infinity, _CMP_LT_OQ);
    const __m256 finite = _mm256_and_ps(x, is_finite);
    add_to_sums(0, _mm256_cvtps_pd(_mm256_castps256_ps128(finite)), sums);
    add_to_sums(1, _mm256_cvtps_pd(_mm256_extractf128_ps(finite, 1)), sums);
    // Not finite elements become the neutral value of each operation instead of being branched
    // around.
    low = _mm256_min_ps(low, _mm256_blendv_ps(infinity, x, is_finite));
    high = _mm256_max_ps(high, _mm256_blendv_ps(minus_infinity, x, is_finite));
    // What is neither finite nor zero is rare in models; zeros are not rare in moments.
    const int odd = ~_mm256_movemask_ps(is_finite) & 0xff;
    zero += std::popcount(static_cast<unsigned>(
        _mm256_movemask_ps(_mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_EQ_OQ))));
    if (odd == 0) continue;
    const auto is_nan =
        static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
    nan += std::popcount(is_nan);
    infinite += std::popcount(static_cast<unsigned>(odd) & ~is_nan);
  }
  store_sums(sums, totals);
  totals.nan += nan;
  totals.infinite += infinite;
  totals.zero += zero;
  add_extremes(std::bit_cast<std::array<float, 8>>(low), std::bit_cast<std::array<float, 8>>(high),
               totals);
  // What is left over begins at a multiple of the lanes, so the portable kernel adds it to the
  // lanes to which it would have added it in a pass over everything: the sums have the same bits.
  kPortableStatisticsKernels.add_floats(values + whole, count - whole, totals);
}

MEG_TARGET_AVX2 void add_doubles(const double* values, size_t count, StatisticsTotals& totals) {
  const __m256d infinity = _mm256_set1_pd(std::numeric_limits<double>::infinity());
  const __m256d minus_infinity = _mm256_set1_pd(-std::numeric_limits<double>::infinity());
  const __m256d sign = _mm256_set1_pd(-0.0);
  __m256d low = infinity, high = minus_infinity;
  Sums sums = load_sums(totals);
  int64_t nan = 0, infinite = 0, zero = 0;
  const size_t whole = count / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes / 2) {
    const __m256d x = _mm256_loadu_pd(values + i);
    const __m256d magnitude = _mm256_andnot_pd(sign, x);
    const __m256d is_finite = _mm256_cmp_pd(magnitude, infinity, _CMP_LT_OQ);
    // Four doubles at a time, for lanes 0-3 and 4-7 in turn: element i is in lane i % 8, as in the
    // portable kernel.
    add_to_sums(i % kLanes == 0 ? 0 : 1, _mm256_and_pd(x, is_finite), sums);
    low = _mm256_min_pd(low, _mm256_blendv_pd(infinity, x, is_finite));
    high = _mm256_max_pd(high, _mm256_blendv_pd(minus_infinity, x, is_finite));
    const int odd = ~_mm256_movemask_pd(is_finite) & 0xf;
    zero += std::popcount(static_cast<unsigned>(
        _mm256_movemask_pd(_mm256_cmp_pd(x, _mm256_setzero_pd(), _CMP_EQ_OQ))));
    if (odd == 0) continue;
    const auto is_nan =
        static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(x, x, _CMP_UNORD_Q)));
    nan += std::popcount(is_nan);
    infinite += std::popcount(static_cast<unsigned>(odd) & ~is_nan);
  }
  store_sums(sums, totals);
  totals.nan += nan;
  totals.infinite += infinite;
  totals.zero += zero;
  add_extremes(std::bit_cast<std::array<double, 4>>(low),
               std::bit_cast<std::array<double, 4>>(high), totals);
  kPortableStatisticsKernels.add_doubles(values + whole, count - whole, totals);
}

}  // namespace

extern const StatisticsKernels kAvx2StatisticsKernels;
const StatisticsKernels kAvx2StatisticsKernels{add_floats, add_doubles};

}  // namespace meg::checkpoint

#endif
