#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/nn/layers/kv_cache.h"

namespace meg::nn {

/// New tokens of one sequence of a cache.
struct CachedTokens {
  int64_t slot = 0;
  int64_t count = 0;  ///< >= 1
};

/// What all layers share of one pass over new tokens of cached sequences, which lie one after
/// another: T in all.
class CacheStep {
 public:
  /// The cache is to outlive the step; what it holds is what the new tokens see before them.
  CacheStep(const KvCache& cache, std::span<const CachedTokens> sequences, at::Device device);

  const at::Tensor& positions() const { return positions_; }

  /// Attention of the new tokens, whose keys and values go into the cache. query: [1, T, n, hn];
  /// key, value: [1, T, g, hn]. Returns [1, T, n * hn].
  at::Tensor attention(int64_t layer, const at::Tensor& query, const at::Tensor& key,
                       const at::Tensor& value, double softmax_scale) const;

 private:
  void write(const at::Tensor& cached, const at::Tensor& tokens) const;
  void attend_singles(int64_t layer, const at::Tensor& query, const at::Tensor& key,
                      const at::Tensor& value, const at::Tensor& output,
                      double softmax_scale) const;
  void attend_several(int64_t layer, const at::Tensor& query, const at::Tensor& output,
                      double softmax_scale) const;

  const KvCache& cache_;
  std::vector<CachedTokens> sequences_;
  at::Tensor positions_, slots_;  ///< [T] int64: where a token is, and in which sequence.
  at::Tensor
      lengths_;  ///< [T] int64: a single token's keys with itself; of others 0. Of none undefined.
  int64_t longest_ = 0;  ///< Of lengths_.
  bool has_several_ = false;
};

}  // namespace meg::nn
