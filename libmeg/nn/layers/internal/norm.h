#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

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

 private:
  bool is_rms_norm_;
  bool is_1p_;
  double epsilon_;
  at::Tensor weight_, bias_;
};

}  // namespace meg::nn
