#include "libmeg/checkpoint/inspect/internal/statistics_kernels.h"

#include <algorithm>
#include <cmath>

namespace meg::checkpoint {

#ifdef __x86_64__
extern const StatisticsKernels kAvx2StatisticsKernels;
#endif

namespace {

template <class T>
void add_values(const T* values, size_t count, StatisticsTotals& totals) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  StatisticsTotals sums = totals;
  for (size_t i = 0; i < count; ++i) {
    const size_t lane = i % StatisticsTotals::kLanes;
    const T x = values[i];
    const bool is_finite = std::abs(x) < kInfinity;
    const double finite = is_finite ? static_cast<double>(x) : 0.0;
    sums.sum[lane] += finite;
    sums.squares[lane] += finite * finite;
    if (is_finite) {
      sums.min = std::min(sums.min, finite);
      sums.max = std::max(sums.max, finite);
    }
    sums.nan += x != x;
    sums.infinite += std::abs(x) == kInfinity;
    sums.zero += x == 0;
  }
  totals = sums;
}

}  // namespace

const StatisticsKernels kPortableStatisticsKernels{add_values<float>, add_values<double>};

const StatisticsKernels& statistics_kernels(InstructionSet set) {
#ifdef __x86_64__
  if (set != InstructionSet::kPortable) return kAvx2StatisticsKernels;
#endif
  static_cast<void>(set);
  return kPortableStatisticsKernels;
}

}  // namespace meg::checkpoint
