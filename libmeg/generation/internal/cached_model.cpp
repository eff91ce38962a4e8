#include "libmeg/generation/internal/cached_model.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "libmeg/libtorch/device_copy.h"
#include "libmeg/libtorch/torch_guard.h"

namespace meg::generation {

LogitRows::LogitRows(at::Tensor logits, int64_t vocab_size)
    : logits_(std::move(logits)),
      data_(logits_.const_data_ptr<float>()),
      rows_(logits_.size(0)),
      stride_(logits_.stride(0)),
      vocab_size_(vocab_size) {}

Result<CachedModel> CachedModel::create(nn::GptModel& model, int64_t vocab_size, int64_t slots,
                                        int64_t capacity) {
  const model::ParallelSizes& sizes = model.part().sizes;
  if (sizes.tensor_model_parallel_size * sizes.pipeline_model_parallel_size *
          sizes.virtual_pipeline_model_parallel_size !=
      1) {
    return Status(StatusCode::kUnsupported, "model: expected a whole one, found a part");
  }
  if (vocab_size > model.config().padded_vocab_size) {
    return make_error(StatusCode::kInvalidArgument,
                      "tokenizer: expected at most the model's {} tokens, found {}",
                      model.config().padded_vocab_size, vocab_size);
  }
  MEG_ASSIGN_OR_RETURN(nn::KvCache cache, nn::KvCache::create(model.config(), model.options(),
                                                              model.part(), slots, capacity));
  return CachedModel(model, std::move(cache), vocab_size);
}

Result<at::Tensor> CachedModel::extend(std::span<const nn::CachedTokens> sequences,
                                       std::span<const int32_t> tokens) {
  at::Tensor ids;
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    const c10::InferenceMode inference;
    ids = libtorch::sent_to(
        model_->options().device,
        at::tensor(at::ArrayRef<int32_t>(tokens.data(), tokens.size()), at::kLong));
    return Status();
  }));
  MEG_ASSIGN_OR_RETURN(const at::Tensor states,
                       model_->hidden_states({.tokens = ids, .sequences = sequences}, cache_));
  return states[0];
}

Result<LogitRows> CachedModel::logits(const at::Tensor& hidden_states) {
  const c10::InferenceMode inference;
  MEG_ASSIGN_OR_RETURN(at::Tensor logits, model_->logits_of(hidden_states));
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    logits = logits.to(at::kCPU).contiguous();
    return Status();
  }));
  return LogitRows(std::move(logits), vocab_size_);
}

Result<std::vector<int32_t>> CachedModel::most_likely(const at::Tensor& hidden_states) {
  const c10::InferenceMode inference;
  MEG_ASSIGN_OR_RETURN(const at::Tensor logits, model_->logits_of(hidden_states));
  std::vector<int32_t> tokens;
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    const auto [largest, ids] = logits.narrow(1, 0, vocab_size_).max(1);  // NaN is the largest
    const at::Tensor found = ids.masked_fill(largest.isnan(), -1).cpu();
    const auto* begin = found.const_data_ptr<int64_t>();
    tokens.assign(begin, begin + found.numel());
    return Status();
  }));
  return tokens;
}

int64_t max_positions(const nn::GptModel& model) { return model.config().max_position_embeddings; }

}  // namespace meg::generation
