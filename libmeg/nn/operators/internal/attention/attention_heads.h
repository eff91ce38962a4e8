#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "libmeg/nn/layers/internal/rotary_embedding.h"

namespace meg::nn {

/// The inputs of attention.
struct AttentionHeads {
  at::Tensor query;       ///< [b, s, n, hn]
  at::Tensor key, value;  ///< [b, s, g, hn]
};

/// Splits the output of linear_qkv into heads, and rotates queries and keys if the table is
/// defined. mixed: [b, s, g * (n / g + 2) * hn], by query groups: the queries of the group's heads,
/// its key, its value. The gradient is written as one array of mixed's shape, in one pass.
AttentionHeads split_heads(const at::Tensor& mixed, int64_t queries_per_group, int64_t kv_channels,
                           const RotaryTable& table, bool interleaved);

/// Rotates queries and keys that were changed after they were split.
void turn_heads(AttentionHeads& heads, const RotaryTable& table, bool interleaved);

}  // namespace meg::nn
