#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/samples/cache_callbacks.h"
#include "libmeg/samples/internal/reblend/run_splits.h"
#include "libmeg/samples/reblend.h"

namespace meg::samples {

/// Which dataset, and which of its samples, each sample of a continued run is.
struct DrawnSamples {
  std::vector<int16_t> datasets;
  std::vector<int64_t> samples;

  int64_t size() const { return std::ssize(datasets); }

  /// Keeps the first `size` samples.
  void cut_to(int64_t size);

  /// How many of the first `size` samples come from each of `count` datasets.
  std::vector<int64_t> counts(size_t count, int64_t size) const;
};

/// The run's first `consumed` samples, then those of the new weights, each dataset's samples
/// counted on from what it has given.
Result<DrawnSamples> draw_samples(const RunSplit& run, int64_t consumed,
                                  std::span<const ReblendedDataset> datasets, int64_t size,
                                  const CacheCancelled& cancelled);

/// The same without new weights: the run's blend goes on where it stood.
DrawnSamples draw_same_blend(const RunSplit& run, int64_t consumed,
                             std::span<const ReblendedDataset> datasets, int64_t size);

}  // namespace meg::samples
