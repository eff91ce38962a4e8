#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "libmeg/nn/gpt_options.h"
#include "libmeg/nn/internal/forward_context.h"
#include "libmeg/nn/operators/attention_scores.h"

namespace meg::nn {

/// Whether attention is computed with a separate softmax instead of LibTorch's fused kernels: by
/// choice, or because attention dropout on a CPU, a softcap of scores or a softmax offset needs it.
bool is_unfused(const model::GptConfig& config, const GptOptions& options, bool training);

/// Sets what attention reads of the context, from GptInput's attention_mask and document_lengths.
void set_attention(ForwardContext& context, const model::GptConfig& config,
                   const GptOptions& options, const at::Tensor& mask,
                   const at::Tensor& document_lengths, int64_t sequence_length);

/// Scores, softmax, dropout and the sum of values.
/// Mirrors Megatron-LM megatron/core/transformer/dot_product_attention.py.
class CoreAttention {
 public:
  /// layer: its number in the whole model, from 0. softmax_offset: [n], of this rank's heads;
  /// undefined: none.
  CoreAttention(const model::GptConfig& config, const GptOptions& options,
                const at::Tensor& softmax_offset, int64_t layer);

  /// query: [b, s, n, hn]; key, value: [b, s, g, hn], g dividing n. Returns [b, s, n * hn].
  at::Tensor forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const ForwardContext& context) const;

  /// mixed: [b, s, n * 3 * hn]: for each head its query, key and value, ready to be multiplied.
  /// Returns the result of forward(), or an undefined tensor if heads have to be split first.
  at::Tensor forward_mixed(const at::Tensor& mixed, const ForwardContext& context) const;

  const AttentionScores& scores() const { return scores_; }

 private:
  at::Tensor unfused(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const ForwardContext& context) const;
  at::Tensor fused(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   const ForwardContext& context) const;
  /// Of samples that are several documents: each document by itself.
  at::Tensor fused_documents(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const ForwardContext& context) const;

  GptOptions options_;
  std::array<bool, 2> is_unfused_;  ///< Outside of training and in it.
  int64_t kv_channels_;
  AttentionScores scores_;
  double layer_scaling_;  ///< 1, or the layer's number with query-key layer scaling.
};

}  // namespace meg::nn
