#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/samples/blend.h"
#include "libmeg/samples/blended_dataset.h"
#include "libmeg/samples/cache/gpt_index_cache.h"
#include "libmeg/samples/cache/internal/idx_stamp.h"
#include "libmeg/samples/gpt_datasets.h"
#include "libmeg/samples/internal/split_datasets.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// Calls work(0) to work(count - 1) by several threads; the first error of them by number.
Status for_each_part(size_t count, const std::function<Status(size_t)>& work);

/// The blend that a split is drawn from; nullptr: none.
const Blend* blend_of(Split split, const GptDataConfig& config);

/// One dataset's samples in a split of a run.
struct RunPart {
  SplitDatasets::Part asked;
  std::shared_ptr<const dataset::IndexedDataset> dataset;
  dataset::SequenceRange range;
  LengthTotals totals;
  GptIndexCache cache;
};

/// Which samples a split of a run has.
struct RunSplit {
  std::vector<RunPart> parts;
  std::optional<BlendIndex> blend;  ///< nullopt: those of its one dataset.
  std::vector<double> weights;      ///< Normalized.

  int64_t size() const { return blend ? std::ssize(blend->samples) : parts[0].cache.plan.samples; }

  /// The number of a sample's dataset, and of the sample in it.
  std::pair<int64_t, int64_t> at(int64_t sample) const {
    if (!blend) return {0, sample};
    const auto place = static_cast<size_t>(sample);
    const auto dataset =
        std::visit([place](auto all) { return static_cast<int64_t>(all[place]); }, blend->datasets);
    return {dataset, blend->samples[place]};
  }
};

/// Opens the splits of a run by the index caches that it has read, or else as Megatron computes
/// them; nothing is built in its folders.
class RunSplits {
 public:
  /// run: must outlive it. cut: as SplitDatasets has it.
  RunSplits(const GptDataConfig& run, std::optional<SplitWeights> cut)
      : run_(run), sets_(run, std::move(cut), std::nullopt, scratch_) {}

  /// nullopt: the split has no documents. kCorruption where a cache is there but cannot be used,
  /// so that it is unknown what the run has read.
  Result<std::optional<RunSplit>> open(Split split);

 private:
  Status open_index(Split split, RunPart& part) const;

  const GptDataConfig& run_;
  GptDatasets scratch_;
  SplitDatasets sets_;
};

}  // namespace meg::samples
