#include "libmeg/nn/layers/internal/norm.h"

#include <ATen/ATen.h>

#include <string>

namespace meg::nn {

Norm::Norm(const model::GptConfig& config, const GptOptions& options, const ParameterStore& store,
           std::string_view stem, int64_t layer)
    : is_rms_norm_(config.normalization == "RMSNorm"),
      is_1p_(options.apply_layernorm_1p),
      epsilon_(options.layernorm_epsilon),
      weight_(store.find(std::string(stem) + "weight", layer)),
      bias_(store.find(std::string(stem) + "bias", layer)) {}

at::Tensor Norm::forward(const at::Tensor& input) const {
  // LibTorch's norms take one type: beside fp32 residuals that is theirs.
  const at::ScalarType type = input.scalar_type();
  const at::Tensor weight = (is_1p_ ? weight_ + 1 : weight_).to(type);
  const at::Tensor output =
      is_rms_norm_ ? at::rms_norm(input, weight.sizes(), weight, epsilon_)
                   : at::layer_norm(input, weight.sizes(), weight, bias_.to(type), epsilon_);
  return output.to(weight_.scalar_type());
}

}  // namespace meg::nn
