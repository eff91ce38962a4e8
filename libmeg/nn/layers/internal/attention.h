#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "libmeg/nn/layers/internal/core_attention.h"
#include "libmeg/nn/layers/internal/linear.h"
#include "libmeg/nn/layers/internal/norm.h"
#include "libmeg/nn/operators/internal/attention/attention_heads.h"
#include "libmeg/nn/parameter_store.h"

namespace meg::nn {

/// Self-attention of one layer. Rows of linear_qkv are ordered by query group: the queries of the
/// group's heads, its key, its value (checkpoint version 3.0).
/// Mirrors Megatron-LM megatron/core/transformer/attention.py: SelfAttention.
class SelfAttention {
 public:
  SelfAttention(const model::GptConfig& config, const GptOptions& options,
                const ParameterStore& store, int64_t layer);

  /// [b, s, h] -> [b, s, h], or [1, n, h] where rows, [n] of b * s, are chosen.
  at::Tensor forward(const at::Tensor& hidden_states, const ForwardContext& context,
                     const at::Tensor& rows) const;

 private:
  /// mixed: the output of linear_qkv. Returns [b, s, n * hn].
  at::Tensor split_and_attend(const at::Tensor& mixed, const ForwardContext& context) const;
  at::Tensor attend(const AttentionHeads& heads, const ForwardContext& context) const;

  /// The table for this layer's queries and keys.
  const RotaryTable& rotary(const ForwardContext& context) const;
  /// Heads [b, s, n, hn], each normalized, or all together.
  at::Tensor normalized(const Norm& norm, const at::Tensor& heads) const;

  ColumnParallelLinear linear_qkv_;
  RowParallelLinear linear_proj_;
  std::optional<Norm> q_layernorm_, k_layernorm_;
  CoreAttention core_attention_;
  int64_t layer_;
  int64_t queries_per_group_;
  int64_t kv_channels_;
  bool rotary_interleaved_;
  bool recompute_;
  bool has_rope_;
  bool has_local_rope_;
  bool norms_all_heads_;
};

}  // namespace meg::nn
