#pragma once

#include <string>

#include "libmeg/base/result.h"
#include "libmeg/samples/gpt_datasets.h"

namespace meg::train {

/// A line for each dataset of a run: its prefix, the sizes of its files, a digest of samples from
/// all over them, its weight and its splits. Reads little, and detects different data in most
/// cases. Errors: those of opening them.
Result<std::string> data_digest(const samples::GptDataConfig& config);

}  // namespace meg::train
