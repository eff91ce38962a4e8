#pragma once

#include <cstdint>

#include "libmeg/base/result.h"

namespace meg::model {

/// Vocabulary size rounded up so that every tensor-parallel rank holds an equal slice.
/// vocab_size: tokens, > 0. Returns tokens, a multiple of divisible_by *
/// tensor_model_parallel_size. Errors: kInvalidArgument if an argument is <= 0, kOutOfRange on
/// overflow. Mirrors Megatron-LM megatron/training/vocab_utils.py: calculate_padded_vocab_size.
Result<int64_t> padded_vocab_size(int64_t vocab_size, int64_t divisible_by,
                                  int64_t tensor_model_parallel_size);

}  // namespace meg::model
