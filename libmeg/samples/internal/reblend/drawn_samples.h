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

/// What the samples of a continued run are drawn from.
struct DrawSource {
  const RunSplit& run;
  int64_t consumed = 0;
  /// Samples whose datasets are those that the run's blend has: of the consumed ones, and where the
  /// weights stay, of all.
  int64_t kept = 0;
  int64_t weights_from = 0;  ///< The sample from which new_weight holds; at most `kept`.
  std::span<const ReblendedDataset> datasets;
};

/// The run's first `consumed` samples, then those with which its blend continues, each dataset's
/// samples counted on from what it has given.
Result<DrawnSamples> draw_samples(const DrawSource& source, int64_t size,
                                  const CacheCancelled& cancelled);

}  // namespace meg::samples
