#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "libmeg/nn/gpt_options.h"

namespace meg::nn {

/// Cosine and sine of the angles by which rotary embedding turns queries and keys, in the
/// parameters' type: [s, 1, d], d the elements of a head that are turned. Undefined: no turning.
struct RotaryTable {
  at::Tensor cosine, sine;
};

/// Angles of positions 0 to sequence_length - 1, taken in fp32. Megatron turns by the place in the
/// sequence, whatever position_ids say.
/// Mirrors Megatron-LM megatron/core/models/common/embeddings/rotary_pos_embedding.py.
RotaryTable rotary_table(const model::GptConfig& config, const GptOptions& options,
                         int64_t sequence_length);

/// heads: [b, s, n, hn]. Elements of a head past the table's d stay as they are.
at::Tensor apply_rotary(const at::Tensor& heads, const RotaryTable& table, bool interleaved);

}  // namespace meg::nn
