#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "libmeg/nn/layers/internal/hidden_states.h"
#include "libmeg/nn/operators/internal/dropout_add_norm.h"
#include "libmeg/nn/parameter_store.h"

namespace meg::nn {

/// LayerNorm or RMSNorm over the last dimension, in fp32 inside; weights and output are of the
/// parameters' type, the input may be fp32 beside 16-bit ones. With apply_layernorm_1p the weight
/// is what is stored + 1.
/// Mirrors Megatron-LM megatron/core/transformer/torch_norm.py: WrappedTorchNorm.
class Norm {
 public:
  /// Takes stem + "weight" and, of a LayerNorm, stem + "bias" from the store.
  Norm(const model::GptConfig& config, const GptOptions& options, const ParameterStore& store,
       std::string_view stem, int64_t layer = 0);

  /// [.., size] -> [.., size]
  at::Tensor forward(const at::Tensor& input) const;

  /// The sum of the hidden states, and its norm: on a GPU in one kernel.
  SumAndNormalized forward(const HiddenStates& states, const HiddenDropout& dropout) const;

 private:
  NormKernel norm_;
};

}  // namespace meg::nn
