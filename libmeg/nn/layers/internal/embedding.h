#pragma once

#include <ATen/core/Tensor.h>

#include "libmeg/nn/internal/forward_context.h"
#include "libmeg/nn/parameter_store.h"

namespace meg::nn {

/// The sum of the word embedding and learned positions, if there are any, followed by dropout.
/// Mirrors Megatron-LM megatron/core/models/common/embeddings/language_model_embedding.py.
class Embedding {
 public:
  Embedding(const GptOptions& options, const ParameterStore& store);

  /// tokens: [b, s] int64; position_ids: [b or 1, s] int64, undefined: 0 to s - 1.
  /// Returns [b, s, h]; if sequences are split, this rank's part of them.
  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& position_ids,
                     const ForwardContext& context) const;

 private:
  at::Tensor look_up(const at::Tensor& tokens, const at::Tensor& position_ids) const;

  size_t end_of_parameters_;
  at::Tensor word_embeddings_;
  at::Tensor position_embeddings_;  ///< Undefined without learned positions.
  TensorParallel ranks_;
  double hidden_dropout_;
  double multiplier_;  ///< Of word embeddings, rounded to their type.
  at::ScalarType residual_dtype_;
};

}  // namespace meg::nn
