#pragma once

#include <cstdint>

#include "libmeg/base/status.h"
#include "libmeg/samples/gpt_datasets.h"

namespace meg::train {

/// Checks the first samples of every split: kInvalidArgument, naming the dataset, if a token id has
/// no row in a vocabulary of `padded_vocab_size`. The model checks later ids.
Status check_token_ids(const samples::GptDatasets& datasets, int64_t padded_vocab_size);

}  // namespace meg::train
