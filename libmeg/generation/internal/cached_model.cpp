#include "libmeg/generation/internal/cached_model.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>

#include "libmeg/libtorch/torch_guard.h"

namespace meg::generation {

LogitRows::LogitRows(at::Tensor logits, int64_t vocab_size)
    : logits_(std::move(logits)),
      data_(logits_.const_data_ptr<float>()),
      rows_(logits_.size(0)),
      stride_(logits_.stride(0)),
      vocab_size_(vocab_size) {}

Result<std::span<const float>> LogitRows::operator[](int64_t row) const {
  const float* const logits = data_ + row * stride_;
  if (std::isnan(*logits)) return nn::not_finite_logits();
  return std::span(logits, static_cast<size_t>(vocab_size_));
}

Result<CachedModel> CachedModel::create(std::shared_ptr<ModelRanks> model, int64_t vocab_size,
                                        int64_t slots, int64_t capacity) {
  const int64_t rows = model->part().config().padded_vocab_size;
  if (vocab_size > rows) {
    return make_error(StatusCode::kInvalidArgument,
                      "tokenizer: expected at most the model's {} tokens, found {}", rows,
                      vocab_size);
  }
  MEG_ASSIGN_OR_RETURN(const int64_t number, model->add_cache(slots, capacity));
  return CachedModel(std::move(model), number, vocab_size);
}

Result<LogitRows> CachedModel::logits(const at::Tensor& hidden_states) {
  const c10::InferenceMode inference;
  MEG_ASSIGN_OR_RETURN(at::Tensor logits, model_->logits(hidden_states, vocab_size_));
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    logits = logits.to(at::kCPU).contiguous();
    return Status();
  }));
  return LogitRows(std::move(logits), vocab_size_);
}

Result<std::vector<Result<int32_t>>> CachedModel::most_likely(const at::Tensor& hidden_states) {
  const c10::InferenceMode inference;
  MEG_ASSIGN_OR_RETURN(const at::Tensor ids, model_->most_likely(hidden_states, vocab_size_));
  std::vector<Result<int32_t>> tokens;
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    const at::Tensor found = ids.cpu();
    const auto* begin = found.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < found.numel(); ++i) {
      if (begin[i] < 0) {
        tokens.emplace_back(nn::not_finite_logits());
      } else {
        tokens.emplace_back(static_cast<int32_t>(begin[i]));
      }
    }
    return Status();
  }));
  return tokens;
}

int64_t max_positions(const nn::GptModel& model) {
  const int64_t positions = model.config().max_position_embeddings;
  return std::min(positions, model.config().most_positions().value_or(positions));
}

}  // namespace meg::generation
