#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace meg::nn {

/// What becomes of the products of queries and keys.
struct AttentionScores {
  double scale = 1;                    ///< Their factor.
  std::optional<double> softcap = {};  ///< c: then c tanh(x / c).
  std::optional<int64_t> window =
      {};  ///< Tokens that a query sees, its own among them; nullopt: all.
  /// [n], of each head the score of one more key, whose value is 0; undefined: none.
  at::Tensor softmax_offset = {};

  /// Whether a query among so many tokens is kept from seeing an earlier one.
  bool hides(int64_t tokens) const { return window.has_value() && tokens > *window; }

  /// Whether no fused kernel has what becomes of them.
  bool need_products() const { return softcap.has_value() || softmax_offset.defined(); }
};

/// [queries, keys] bool, true where a query sees a key: keys up to its own, within the window.
/// before: keys that come before the first query's own.
at::Tensor visible_keys(const AttentionScores& scores, int64_t queries, int64_t keys,
                        int64_t before, at::Device device);

/// scores with their softcap.
at::Tensor softcapped(const AttentionScores& scores, const at::Tensor& products);

/// The softmax of masked, [b, n, s, l]: capped scores, those of hidden keys replaced.
/// Mirrors Megatron-LM megatron/core/fusions/fused_softmax.py: SoftmaxOne.
at::Tensor probabilities_of(const AttentionScores& scores, const at::Tensor& masked);

/// Attention whose scores need_products(), with a softmax in fp32. query: [b, n, s, hn]; key,
/// value: [b, g, l, hn]; mask: [s, l] bool, true keeps a score. Returns [b, n, s, hn].
at::Tensor attention_by_products(const AttentionScores& scores, const at::Tensor& query,
                                 const at::Tensor& key, const at::Tensor& value,
                                 const at::Tensor& mask);

}  // namespace meg::nn
