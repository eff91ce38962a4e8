#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "libmeg/nn/layers/internal/hidden_states.h"
#include "libmeg/nn/operators/internal/dropout_add_norm.h"
#include "libmeg/nn/parameter_store.h"

namespace meg::nn {

/// LayerNorm or RMSNorm over the last dimension, computed in fp32. Weights and output have the
/// parameters' dtype; the input may be fp32 beside 16-bit weights. With apply_layernorm_1p the
/// weight is the stored one + 1.
/// Mirrors Megatron-LM megatron/core/transformer/torch_norm.py: WrappedTorchNorm.
class Norm {
 public:
  /// Takes stem + "weight" and, for LayerNorm, stem + "bias" from the store.
  Norm(const model::GptConfig& config, const GptOptions& options, const ParameterStore& store,
       std::string_view stem, int64_t layer = 0);

  /// [.., size] -> [.., size]
  at::Tensor forward(const at::Tensor& input) const;

  /// Adds the hidden states and normalizes the sum, in one kernel on a GPU.
  SumAndNormalized forward(const HiddenStates& states, const HiddenDropout& dropout) const;

 private:
  NormKernel norm_;
};

}  // namespace meg::nn
