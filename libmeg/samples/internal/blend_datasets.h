#pragma once

#include <memory>

#include "libmeg/base/result.h"
#include "libmeg/samples/blend.h"
#include "libmeg/samples/gpt_datasets.h"
#include "libmeg/samples/internal/split_datasets.h"
#include "libmeg/samples/sample_dataset.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// A split drawn from several datasets; nullptr, with a note, where one has no documents for it.
/// The report goes to `result`.
Result<std::unique_ptr<SampleDataset>> blend_datasets(Split split, const Blend& blend,
                                                      const GptDataConfig& config,
                                                      SplitDatasets& datasets, GptDatasets& result);

}  // namespace meg::samples
