#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/generation/internal/model_ranks.h"
#include "libmeg/nn/gpt_model.h"

namespace meg::generation {

/// Logits of chosen tokens over the true vocabulary, on the host.
class LogitRows {
 public:
  /// logits: of GptModel::logits_of(), on a CPU.
  LogitRows(at::Tensor logits, int64_t vocab_size);

  int64_t size() const { return rows_; }

  /// nn::not_finite_logits() for a row that is marked.
  Result<std::span<const float>> operator[](int64_t row) const;

 private:
  at::Tensor logits_;
  const float* data_;
  int64_t rows_, stride_, vocab_size_;
};

/// A cache of a model, and the model calls of generation: rank 0 decides which tokens come next,
/// the other ranks of the model do their parts of these calls.
class CachedModel {
 public:
  /// kInvalidArgument if the model has fewer rows than the vocabulary; the errors of
  /// KvCache::create(). capacity: tokens per slot.
  static Result<CachedModel> create(std::shared_ptr<ModelRanks> model, int64_t vocab_size,
                                    int64_t slots, int64_t capacity);

  CachedModel(CachedModel&& other) noexcept = default;
  CachedModel& operator=(CachedModel&& other) noexcept = delete;

  ~CachedModel() {
    if (model_ != nullptr) model_->drop_cache(number_);
  }

  int64_t vocab_size() const { return vocab_size_; }

  const std::shared_ptr<ModelRanks>& model() const { return model_; }

  nn::KvCache& cache() { return model_->cache(number_); }

  const nn::KvCache& cache() const { return std::as_const(*model_).cache(number_); }

  bool is_on_cpu() const { return model_->part().options().device.is_cpu(); }

  /// Slot i of the first sources.size() becomes what slot sources[i] was.
  Status rearrange(std::span<const int64_t> sources) { return model_->rearrange(number_, sources); }

  /// KvCache::copy_prefix() on all ranks.
  Status copy_prefix(int64_t source, int64_t slot, int64_t length) {
    return model_->copy_prefix(number_, source, slot, length);
  }

  /// New tokens of sequences (see nn::CachedInput): their hidden states [T, h].
  Result<at::Tensor> extend(std::span<const nn::CachedTokens> sequences,
                            std::span<const int32_t> tokens) {
    return model_->extend(number_, sequences, tokens);
  }

  /// What the output layer makes of hidden states [n, h].
  Result<LogitRows> logits(const at::Tensor& hidden_states);

  /// The token with the largest logit for each row, the first one if several are equal, or
  /// nn::not_finite_logits(). Computed on the model's device, so that a GPU sends only n numbers.
  Result<std::vector<Result<int32_t>>> most_likely(const at::Tensor& hidden_states);

 private:
  CachedModel(std::shared_ptr<ModelRanks> model, int64_t number, int64_t vocab_size)
      : model_(std::move(model)), number_(number), vocab_size_(vocab_size) {}

  std::shared_ptr<ModelRanks> model_;  ///< Null after a move.
  int64_t number_;
  int64_t vocab_size_;
};

/// The most tokens of one sequence of a model: its positions.
int64_t max_positions(const nn::GptModel& model);

}  // namespace meg::generation
