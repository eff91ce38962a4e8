#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "libmeg/nn/gpt_options.h"

namespace meg::nn {

/// Cosine and sine of the angles by which rotary embedding rotates queries and keys, in the
/// parameters' dtype: [s, 1, d], where d is the number of a head's first channels that are rotated.
/// Undefined: no rotation.
struct RotaryTable {
  at::Tensor cosine, sine;
};

/// The table for positions 0 to sequence_length - 1, with angles computed in fp32. Megatron rotates
/// by the place in the sequence, whatever position_ids are. Mirrors Megatron-LM
/// megatron/core/models/common/embeddings/rotary_pos_embedding.py.
RotaryTable rotary_table(const model::GptConfig& config, const GptOptions& options,
                         int64_t sequence_length);

/// The tables of a model: that of most layers, and of layers with rotary_base_local.
struct RotaryTables {
  RotaryTable all, local;

  /// Those rows, [n] int64, of both.
  RotaryTables rows(const at::Tensor& positions) const;
};

/// Undefined tables if the model has no rotary embedding.
RotaryTables rotary_tables(const model::GptConfig& config, const GptOptions& options,
                           int64_t sequence_length);

}  // namespace meg::nn
