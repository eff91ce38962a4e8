#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "libmeg/nn/layers/kv_cache.h"

namespace meg::nn {

/// New tokens of one sequence of a cache.
struct CachedTokens {
  int64_t slot = 0;
  int64_t count = 0;  ///< >= 1
};

/// Attention of sequences with one new token each, by LibTorch's operators: what GPUs run.
class SingleTokens {
 public:
  /// rows: where their tokens lie among all new ones. slots: whose they are. lengths: keys that
  /// each sees, its own with them. capacity: of the cache's slots.
  SingleTokens(const std::vector<int64_t>& rows, const std::vector<int64_t>& slots,
               const std::vector<int64_t>& lengths, int64_t capacity, at::Device device);

  /// query, output: [1, T, n, hn], of which the rows are read and written; keys, values: [slots, g,
  /// capacity, hn].
  void attend(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
              const at::Tensor& output, double softmax_scale) const;

 private:
  at::Tensor rows_, slots_;  ///< [singles] int64
  at::Tensor seen_;          ///< [singles, 1, 1, l] bool, true where a single sees a key.
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
  void attend_single_on_cpu(int64_t layer, const at::Tensor& query, const at::Tensor& output,
                            double softmax_scale) const;
  void attend_several(int64_t layer, const at::Tensor& query, const at::Tensor& output,
                      double softmax_scale) const;

  const KvCache& cache_;
  std::vector<CachedTokens> sequences_;
  std::vector<int64_t> slot_of_, length_of_;  ///< By token; a single one's keys with itself, or 0.
  at::Tensor positions_, slots_;              ///< [T] int64: a token's place in its sequence.
  std::optional<SingleTokens> singles_;       ///< GPUs only.
  bool has_single_ = false, has_several_ = false;
};

}  // namespace meg::nn
