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

/// Where new tokens of cached sequences go, which lie one after another: T in all.
struct CachePlaces {
  /// What the cache holds is what the new tokens see before them.
  CachePlaces(const KvCache& cache, std::span<const CachedTokens> sequences);

  /// [3, T] int64 on the host: positions, slots, and how many keys a single token sees, itself
  /// included; of several tokens of a sequence 0.
  at::Tensor numbers;
  int64_t longest = 0;  ///< Of the third row.
  bool has_several = false;
};

/// What all layers share of one pass over new tokens of cached sequences.
class CacheStep {
 public:
  /// The cache is to outlive the step.
  CacheStep(const KvCache& cache, const CachePlaces& places,
            std::span<const CachedTokens> sequences, at::Device device);

  /// Of single tokens. numbers: as CachePlaces', on the device, in the third row at most `longest`.
  CacheStep(const KvCache& cache, const at::Tensor& numbers, int64_t longest);

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
  std::vector<CachedTokens> sequences_;     ///< Of single tokens none.
  at::Tensor positions_, slots_, lengths_;  ///< [T] each: the rows of CachePlaces' numbers.
  int64_t longest_;
};

}  // namespace meg::nn
