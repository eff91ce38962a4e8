#include "libmeg/nn/norm.h"

#include <ATen/ATen.h>

#include <string>

namespace meg::nn {

Norm::Norm(const GptConfig& config, const GptOptions& options, const ParameterStore& store,
           std::string_view stem, int64_t layer)
    : is_rms_norm_(config.normalization == "RMSNorm"),
      epsilon_(options.layernorm_epsilon),
      weight_(store.find(std::string(stem) + "weight", layer)),
      bias_(store.find(std::string(stem) + "bias", layer)) {}

at::Tensor Norm::forward(const at::Tensor& input) const {
  if (is_rms_norm_) return at::rms_norm(input, weight_.sizes(), weight_, epsilon_);
  return at::layer_norm(input, weight_.sizes(), weight_, bias_, epsilon_);
}

}  // namespace meg::nn
