#include "libmeg/nn/layers/internal/embedding.h"

#include <ATen/ATen.h>

#include "libmeg/nn/layers/internal/dropout.h"

namespace meg::nn {

Embedding::Embedding(const GptOptions& options, const ParameterStore& store)
    : word_embeddings_(store.find("embedding.word_embeddings.weight")),
      position_embeddings_(store.find("embedding.position_embeddings.weight")),
      hidden_dropout_(options.hidden_dropout),
      residual_dtype_(options.residual_dtype()) {}

at::Tensor Embedding::forward(const at::Tensor& tokens, const at::Tensor& position_ids,
                              const ForwardContext& context) const {
  at::Tensor hidden = at::embedding(word_embeddings_, tokens);
  if (position_embeddings_.defined()) {
    hidden = hidden + (position_ids.defined() ? at::embedding(position_embeddings_, position_ids)
                                              : position_embeddings_.narrow(0, 0, tokens.size(1)));
  }
  hidden = hidden.to(residual_dtype_);
  if (!context.training) return hidden;
  return dropout(hidden, hidden_dropout_,
                 context.random->generator(RandomStates::Stream::kDataParallel));
}

}  // namespace meg::nn
