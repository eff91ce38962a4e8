#pragma once

#include <cstdint>

#include "libmeg/base/result.h"

namespace meg::model {

/// Number of copies of a model on `world_size` ranks, each copy on tensor x pipeline x context of
/// them. Sizes are at least 1. Errors: kInvalidArgument, with all sizes, if they do not fill the
/// world. Mirrors Megatron-LM megatron/training/arguments.py: validate_args.
Result<int64_t> data_parallel_size(int64_t world_size, int64_t tensor, int64_t pipeline,
                                   int64_t context);

}  // namespace meg::model
