#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/nn/layers/kv_cache.h"
#include "libmeg/nn/operators/attention_scores.h"

namespace meg::nn {

/// New tokens of one sequence of a cache.
struct CachedTokens {
  int64_t slot = 0;
  int64_t count = 0;  ///< >= 1
};

/// The places in a cache for new tokens of sequences, one sequence after another, T in total.
struct CachePlaces {
  /// The new tokens follow those that the cache holds.
  CachePlaces(const KvCache& cache, std::span<const CachedTokens> sequences);

  /// [3, T] int64 on the host: positions, slots, and the number of keys, its own included, to which
  /// a token attends; 0 for tokens of a sequence that has several.
  at::Tensor numbers;
  int64_t longest = 0;  ///< Maximum of the third row.
  bool has_several = false;
};

/// Shared by all layers of one pass over new tokens of cached sequences.
class CacheStep {
 public:
  /// The cache must outlive the step.
  CacheStep(const KvCache& cache, const CachePlaces& places,
            std::span<const CachedTokens> sequences, at::Device device);

  /// Makes a step of sequences with one new token each. numbers: as in CachePlaces, but on the
  /// device, with at most `longest` in the third row.
  CacheStep(const KvCache& cache, const at::Tensor& numbers, int64_t longest);

  const at::Tensor& positions() const { return positions_; }

  /// Computes the attention of the new tokens and adds their keys and values to the cache. query:
  /// [1, T, n, hn]; key, value: [1, T, g, hn]. Returns [1, T, n * hn].
  at::Tensor attention(int64_t layer, const at::Tensor& query, const at::Tensor& key,
                       const at::Tensor& value, const AttentionScores& scores) const;

 private:
  void write(const at::Tensor& cached, const at::Tensor& tokens) const;
  void attend_singles(int64_t layer, const at::Tensor& query, const at::Tensor& key,
                      const at::Tensor& value, const at::Tensor& output,
                      const AttentionScores& scores) const;
  /// Of sequences with several new tokens, or of all.
  void attend_several(int64_t layer, const at::Tensor& query, const at::Tensor& output,
                      const AttentionScores& scores, bool all) const;

  const KvCache& cache_;
  std::vector<CachedTokens> sequences_;     ///< Empty where only their numbers are known.
  bool has_several_ = false;                ///< Whether one of them has several new tokens.
  at::Tensor positions_, slots_, lengths_;  ///< [T] each: the rows of CachePlaces' numbers.
  int64_t longest_;
};

}  // namespace meg::nn
