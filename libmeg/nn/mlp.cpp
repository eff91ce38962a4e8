#include "libmeg/nn/mlp.h"

#include <ATen/ATen.h>

namespace meg::nn {

Mlp::Mlp(const GptConfig& config, const GptOptions& options, const ParameterStore& store,
         int64_t layer)
    : linear_fc1_(store.find("decoder.layers.{}.mlp.linear_fc1.weight", layer),
                  store.find("decoder.layers.{}.mlp.linear_fc1.bias", layer)),
      linear_fc2_(store.find("decoder.layers.{}.mlp.linear_fc2.weight", layer),
                  store.find("decoder.layers.{}.mlp.linear_fc2.bias", layer)),
      swiglu_(config.swiglu),
      gelu_(options.gelu) {}

at::Tensor Mlp::activate(const at::Tensor& intermediate) const {
  if (swiglu_) {
    const std::vector<at::Tensor> halves = intermediate.chunk(2, -1);
    return at::silu(halves[0]) * halves[1];
  }
  return at::gelu(intermediate, gelu_ == GeluForm::kTanh ? "tanh" : "none");
}

at::Tensor Mlp::forward(const at::Tensor& hidden_states) const {
  return linear_fc2_.forward(activate(linear_fc1_.forward(hidden_states)));
}

}  // namespace meg::nn
