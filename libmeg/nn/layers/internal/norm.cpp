#include "libmeg/nn/layers/internal/norm.h"

#include <ATen/ATen.h>

#include <string>

namespace meg::nn {

Norm::Norm(const model::GptConfig& config, const GptOptions& options, const ParameterStore& store,
           std::string_view stem, int64_t layer)
    : norm_{.weight = store.find(std::string(stem) + "weight", layer),
            .bias = store.find(std::string(stem) + "bias", layer),
            .is_rms_norm = config.normalization == "RMSNorm",
            .is_1p = options.apply_layernorm_1p,
            .epsilon = options.layernorm_epsilon} {}

at::Tensor Norm::forward(const at::Tensor& input) const {
  // LibTorch's norms take one type: beside fp32 residuals that is theirs.
  const at::ScalarType type = input.scalar_type();
  const at::Tensor weight = (norm_.is_1p ? norm_.weight + 1 : norm_.weight).to(type);
  const at::Tensor output =
      norm_.is_rms_norm
          ? at::rms_norm(input, weight.sizes(), weight, norm_.epsilon)
          : at::layer_norm(input, weight.sizes(), weight, norm_.bias.to(type), norm_.epsilon);
  return output.to(norm_.weight.scalar_type());
}

SumAndNormalized Norm::forward(const HiddenStates& states, const HiddenDropout& dropout) const {
  if (states.residual.is_cuda()) {
    return dropout_add_norm(states.branch, states.residual, dropout.mask_of(states), norm_);
  }
  const at::Tensor sum = dropout.sum_of(states);
  return {.sum = sum, .normalized = forward(sum)};
}

}  // namespace meg::nn
