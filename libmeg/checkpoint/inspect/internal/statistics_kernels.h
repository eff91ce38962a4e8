#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "libmeg/base/cpu.h"

namespace meg::checkpoint {

/// Running totals over the values of a tensor. Value i is added to lane i % kLanes, so that every
/// kernel adds the same numbers in the same order.
struct StatisticsTotals {
  static constexpr size_t kLanes = 8;

  std::array<double, kLanes> sum = {};      ///< Of finite values.
  std::array<double, kLanes> squares = {};  ///< Of finite values.
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  int64_t nan = 0;
  int64_t infinite = 0;
  int64_t zero = 0;
};

/// One version of the hot loops. count: less than 2^32. The number of values added before must be a
/// multiple of kLanes.
struct StatisticsKernels {
  void (*add_floats)(const float* values, size_t count, StatisticsTotals& totals);
  void (*add_doubles)(const double* values, size_t count, StatisticsTotals& totals);
};

/// The plain loops: the reference that the others must equal.
extern const StatisticsKernels kPortableStatisticsKernels;

/// The fastest version for a set of instructions.
const StatisticsKernels& statistics_kernels(InstructionSet set);

}  // namespace meg::checkpoint
