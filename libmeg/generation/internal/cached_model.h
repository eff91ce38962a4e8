#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/nn/gpt_model.h"

namespace meg::generation {

/// Logits of chosen tokens over the true vocabulary, on the host.
class LogitRows {
 public:
  /// logits: [rows, v or more] fp32 on a CPU.
  LogitRows(at::Tensor logits, int64_t vocab_size);

  int64_t size() const { return rows_; }

  std::span<const float> operator[](int64_t row) const {
    return {data_ + row * stride_, static_cast<size_t>(vocab_size_)};
  }

 private:
  at::Tensor logits_;
  const float* data_;
  int64_t rows_, stride_, vocab_size_;
};

/// The model calls of generation, and nothing else: where a model lies on several ranks, rank 0
/// decides which tokens come next and the others answer these calls.
class CachedModel {
 public:
  /// The model is to outlive this. kInvalidArgument where it is not whole or has fewer rows than
  /// the vocabulary; what KvCache::create gives. capacity: tokens that a slot holds.
  static Result<CachedModel> create(nn::GptModel& model, int64_t vocab_size, int64_t slots,
                                    int64_t capacity);

  int64_t vocab_size() const { return vocab_size_; }

  nn::KvCache& cache() { return cache_; }

  const nn::KvCache& cache() const { return cache_; }

  bool is_on_cpu() const { return model_->options().device.is_cpu(); }

  /// New tokens of sequences (see nn::CachedInput): their hidden states [T, h].
  Result<at::Tensor> extend(std::span<const nn::CachedTokens> sequences,
                            std::span<const int32_t> tokens);

  /// What the output layer makes of hidden states [n, h].
  Result<LogitRows> logits(const at::Tensor& hidden_states);

  /// The token with the largest of these logits for each row, the first where several are; -1 where
  /// some are NaN. Found where the model is, so that a GPU sends n numbers.
  Result<std::vector<int32_t>> most_likely(const at::Tensor& hidden_states);

 private:
  CachedModel(nn::GptModel& model, nn::KvCache cache, int64_t vocab_size)
      : model_(&model), cache_(std::move(cache)), vocab_size_(vocab_size) {}

  nn::GptModel* model_;
  nn::KvCache cache_;
  int64_t vocab_size_;
};

/// The most tokens of one sequence of a model: its positions.
int64_t max_positions(const nn::GptModel& model);

}  // namespace meg::generation
