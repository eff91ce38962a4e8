#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "libmeg/nn/gpt_options.h"

namespace meg::nn {

/// Cosine and sine of the angles by which rotary embedding rotates queries and keys, in the
/// parameters' type: [s, 1, d], d the first channels of a head, which are rotated; the others stay
/// as they are. Undefined: no turning.
struct RotaryTable {
  at::Tensor cosine, sine;
};

/// Angles of positions 0 to sequence_length - 1, taken in fp32. Megatron rotates by the place in
/// the sequence, whatever position_ids say. Mirrors Megatron-LM
/// megatron/core/models/common/embeddings/rotary_pos_embedding.py.
RotaryTable rotary_table(const model::GptConfig& config, const GptOptions& options,
                         int64_t sequence_length);

}  // namespace meg::nn
