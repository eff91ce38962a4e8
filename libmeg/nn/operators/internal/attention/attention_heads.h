#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "libmeg/nn/layers/internal/rotary_embedding.h"

namespace meg::nn {

/// What attention is computed from.
struct AttentionHeads {
  at::Tensor query;       ///< [b, s, n, hn]
  at::Tensor key, value;  ///< [b, s, g, hn]
};

/// Takes the heads out of what the product with linear_qkv's weight gives, and rotates queries and
/// keys where the table is defined. mixed: [b, s, g * (n / g + 2) * hn], by query groups: the
/// queries of the group's heads, its key, its value. The gradient comes back as one array of
/// mixed's shape, in one pass.
AttentionHeads split_heads(const at::Tensor& mixed, int64_t queries_per_group, int64_t kv_channels,
                           const RotaryTable& table, bool interleaved);

/// Turns queries and keys that have been computed with after they were split.
void turn_heads(AttentionHeads& heads, const RotaryTable& table, bool interleaved);

}  // namespace meg::nn
