#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/samples/blend.h"
#include "libmeg/samples/cache/internal/blend_index_cache.h"
#include "libmeg/samples/gpt_datasets.h"
#include "libmeg/samples/internal/split_datasets.h"
#include "libmeg/samples/sample_dataset.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// What a blend asks of its datasets.
struct BlendPlan {
  /// Its one dataset is read as it is: it has no weight, or, since core 0.7, is the only one of a
  /// split that has datasets of its own.
  bool is_alone = false;
  std::optional<int64_t> samples;  ///< Asked of the one that is alone.
  std::vector<BlendPart> parts;    ///< Empty without weights: then each gives what it has.
  std::vector<double> weights;     ///< Normalized.

  /// What is asked of dataset i of the blend.
  SplitDatasets::Part part(const Blend& blend, size_t i) const;
};

/// kInvalidArgument for more datasets than Megatron numbers, and for weights without a number of
/// samples.
Result<BlendPlan> plan_blend(Split split, const Blend& blend, const GptDataConfig& config);

/// The index of a blend. sizes: samples of each dataset. kInvalidArgument where one without weights
/// has none.
Result<BlendIndexRequest> blend_index_request(Split split, BlendPlan plan, const Blend& blend,
                                              std::vector<int64_t> sizes,
                                              const SplitDatasets& datasets,
                                              const GptDataConfig& config);

/// A split of one dataset, or drawn from several; nullptr, with a note, where one has no documents
/// for it. The report goes to `result`.
Result<std::unique_ptr<SampleDataset>> blend_datasets(Split split, const Blend& blend,
                                                      const GptDataConfig& config,
                                                      SplitDatasets& datasets, GptDatasets& result);

}  // namespace meg::samples
