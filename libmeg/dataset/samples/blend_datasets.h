#pragma once

#include <memory>

#include "libmeg/core/result.h"
#include "libmeg/dataset/samples/blend.h"
#include "libmeg/dataset/samples/gpt_datasets.h"
#include "libmeg/dataset/samples/sample_dataset.h"
#include "libmeg/dataset/samples/split.h"
#include "libmeg/dataset/samples/split_datasets.h"

namespace meg {

/// A split drawn from several datasets; nullptr, with a note, where one has no documents for it.
/// The report goes to `result`.
Result<std::unique_ptr<SampleDataset>> blend_datasets(Split split, const Blend& blend,
                                                      const GptDataConfig& config,
                                                      SplitDatasets& datasets, GptDatasets& result);

}  // namespace meg
