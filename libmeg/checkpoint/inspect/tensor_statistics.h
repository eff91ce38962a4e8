#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"

namespace meg::checkpoint {

/// Statistics of a tensor's values. Minimum, maximum and sums are over the finite elements, in
/// double precision. The real and imaginary parts of complex tensors count as elements.
struct TensorStatistics {
  int64_t elements = 0;
  int64_t nan = 0;
  int64_t infinite = 0;
  int64_t zero = 0;  ///< Includes -0.
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;
  double sum_of_squares = 0;

  int64_t finite() const { return elements - nan - infinite; }

  /// NaN if no element is finite.
  double mean() const;
  /// The L2 norm.
  double norm() const;
  /// The root of the mean square; 0 if no element is finite.
  double rms() const;
  /// 0 to 1; 0 for a tensor without elements.
  double zero_fraction() const;

  /// Adds the statistics of the elements that follow.
  void append(const TensorStatistics& next);
};

/// Statistics of elements in memory, little-endian, at any address. The sums are taken in eight
/// lanes of double, whatever the machine, so equal bytes give equal results.
TensorStatistics tensor_statistics(DType dtype, std::span<const std::byte> bytes);

/// A tensor that is read piece by piece.
struct StatisticsSource {
  std::string name;  ///< For messages.
  DType dtype = DType::kFloat32;
  int64_t elements = 0;
  /// Reads elements from `first` on in row-major order; called by several threads at once.
  std::function<Status(int64_t first, std::span<std::byte> into)> read;
};

/// Statistics of many tensors at once, with `workers` threads (0: one per processor), in bounded
/// memory: a buffer of about 1 MiB per thread. Every tensor is divided at the same elements and its
/// pieces are added in their order, so neither the number of threads nor how the elements are
/// stored changes a bit of the result. The first error ends the work; progress counts bytes.
Result<std::vector<TensorStatistics>> tensor_statistics(std::span<const StatisticsSource> sources,
                                                        int workers = 0,
                                                        const ProgressCallback& progress = {});

}  // namespace meg::checkpoint
