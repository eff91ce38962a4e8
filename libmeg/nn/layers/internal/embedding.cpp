#include "libmeg/nn/layers/internal/embedding.h"

#include <ATen/ATen.h>

#include "libmeg/nn/layers/internal/dropout.h"
#include "libmeg/nn/operators/internal/embedding_sum.h"
#include "libmeg/nn/operators/internal/exchange.h"
#include "libmeg/nn/operators/internal/vocab_parallel.h"

namespace meg::nn {

Embedding::Embedding(const GptOptions& options, const ParameterStore& store)
    : end_of_parameters_(store.end_of("embedding.")),
      word_embeddings_(store.find("embedding.word_embeddings.weight")),
      position_embeddings_(store.find("embedding.position_embeddings.weight")),
      ranks_(store.tensor_parallel()),
      hidden_dropout_(options.hidden_dropout),
      multiplier_(at::scalar_tensor(options.embedding_multiplier, at::dtype(options.params_dtype))
                      .item<double>()),
      residual_dtype_(options.residual_dtype()) {}

/// Returns the states before sequences are split: [b, s, h].
at::Tensor Embedding::look_up(const at::Tensor& tokens, const at::Tensor& position_ids) const {
  if (tokens.is_cuda() && ranks_.size() == 1) {
    return embedding_sum(word_embeddings_, tokens, position_embeddings_, position_ids);
  }
  const at::Tensor hidden = vocab_parallel_embedding(word_embeddings_, tokens, ranks_);
  if (!position_embeddings_.defined()) return hidden;
  return hidden + (position_ids.defined() ? at::embedding(position_embeddings_, position_ids)
                                          : position_embeddings_.narrow(0, 0, tokens.size(1)));
}

at::Tensor Embedding::forward(const at::Tensor& tokens, const at::Tensor& position_ids,
                              const ForwardContext& context) const {
  context.use_parameters(end_of_parameters_);
  at::Tensor hidden = look_up(tokens, position_ids);
  if (multiplier_ != 1) hidden = hidden * multiplier_;
  if (ranks_.splits_sequences()) hidden = scatter_to_sequence_parallel_region(hidden, ranks_);
  hidden = hidden.to(residual_dtype_);
  if (!context.training) return hidden;
  return dropout(hidden, hidden_dropout_, context.random->generator(context.hidden_stream));
}

}  // namespace meg::nn
