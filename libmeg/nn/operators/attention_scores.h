#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace meg::nn {

/// What becomes of the products of queries and keys before the softmax.
struct AttentionScores {
  double scale = 1;                    ///< Their factor.
  std::optional<double> softcap = {};  ///< c: then c tanh(x / c).
  std::optional<int64_t> window =
      {};  ///< Tokens that a query sees, its own among them; nullopt: all.

  /// Whether a query among so many tokens is kept from seeing an earlier one.
  bool hides(int64_t tokens) const { return window.has_value() && tokens > *window; }
};

/// [queries, keys] bool, true where a query sees a key: keys up to its own, within the window.
/// before: keys that come before the first query's own.
at::Tensor visible_keys(const AttentionScores& scores, int64_t queries, int64_t keys,
                        int64_t before, at::Device device);

/// scores with their softcap.
at::Tensor softcapped(const AttentionScores& scores, const at::Tensor& products);

/// Attention with a softcap, by matrix products and a softmax in fp32. query: [b, n, s, hn]; key,
/// value: [b, g, l, hn]; mask: [s, l] bool, true keeps a score. Returns [b, n, s, hn].
at::Tensor softcapped_attention(const AttentionScores& scores, const at::Tensor& query,
                                const at::Tensor& key, const at::Tensor& value,
                                const at::Tensor& mask);

}  // namespace meg::nn
