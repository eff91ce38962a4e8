#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/samples/gpt_datasets.h"
#include "libmeg/samples/internal/continued_index.h"
#include "libmeg/samples/internal/reblend/drawn_samples.h"
#include "libmeg/samples/internal/reblend/run_splits.h"
#include "libmeg/samples/reblend.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// What the samples of a run become from some number of them on.
struct ContinuedRun {
  RunSplits& before;
  const RunSplit& train;  ///< Before.
  int64_t consumed = 0;
  std::optional<SplitWeights> cut;
  const std::vector<std::optional<ContinuedIndex>>& indices;  ///< Of the run's datasets.
  const std::vector<int64_t>& needed;                         ///< Samples of each dataset.
  const DrawnSamples& drawn;
  const Reblended& now;  ///< All but its caches.
};

/// Writes the index caches of a continued run into the folder `path`, which appears whole.
/// kInvalidArgument where it is there and holds something.
Result<std::vector<IndexCacheReport>> write_reblended_caches(const ContinuedRun& run,
                                                             const std::string& path);

}  // namespace meg::samples
