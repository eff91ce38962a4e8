#include "libmeg/nn/layers/internal/mlp.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <string>

#include "libmeg/nn/operators/internal/bias_gelu.h"
#include "libmeg/nn/operators/internal/epilogue_linear.h"
#include "libmeg/nn/operators/internal/swiglu.h"

namespace meg::nn {
namespace {

/// An approximation of GELU; rounds between its operators, as Megatron does without fusion.
at::Tensor quick_gelu(const at::Tensor& x) { return x * at::sigmoid(1.702 * x); }

}  // namespace

Mlp::Mlp(const model::GptConfig& config, const GptOptions& options, const ParameterStore& store,
         std::string_view stem, int64_t layer, const TensorParallel& ranks)
    : linear_fc1_(store.find(std::string(stem) + "linear_fc1.weight", layer),
                  store.find(std::string(stem) + "linear_fc1.bias", layer), ranks),
      linear_fc2_(store.find(std::string(stem) + "linear_fc2.weight", layer),
                  store.find(std::string(stem) + "linear_fc2.bias", layer), ranks),
      is_gated_(config.gated_linear_unit),
      quick_geglu_(options.quick_geglu),
      geglu_(options.geglu),
      squared_relu_(options.squared_relu),
      gelu_(options.gelu),
      is_whole_(ranks.size() == 1) {}

at::Tensor Mlp::activate(const at::Tensor& hidden_states) const {
  if (is_gated_) {
    const at::Tensor gates_and_ups = linear_fc1_.forward(hidden_states);
    if (!quick_geglu_ && !geglu_) return swiglu(gates_and_ups);
    const std::vector<at::Tensor> halves = gates_and_ups.chunk(2, -1);
    return (quick_geglu_ ? quick_gelu(halves[0]) : gelu(halves[0])) * halves[1];
  }
  if (squared_relu_) return at::relu(linear_fc1_.forward(hidden_states)).square();
  // On a CPU the fused kernel halves the time of GELU and its gradient; on a GPU the matrix product
  // adds the bias on its way out.
  if (gelu_ == GeluForm::kTanh && hidden_states.is_cpu() && linear_fc1_.bias().defined()) {
    return bias_gelu(linear_fc1_.forward_without_bias(hidden_states), linear_fc1_.bias());
  }
  if (suits_gelu_epilogue(hidden_states) && !c10::GradMode::is_enabled()) {
    return gelu_linear(hidden_states, linear_fc1_.weight(), linear_fc1_.bias());
  }
  return gelu(linear_fc1_.forward(hidden_states));
}

at::Tensor Mlp::gelu(const at::Tensor& x) const {
  return at::gelu(x, gelu_ == GeluForm::kTanh ? "tanh" : "none");
}

bool Mlp::suits_gelu_epilogue(const at::Tensor& hidden_states) const {
  return is_whole_ && !is_gated_ && !squared_relu_ && gelu_ == GeluForm::kTanh &&
         linear_fc1_.bias().defined() && has_gelu_epilogue(hidden_states, linear_fc1_.weight());
}

bool Mlp::suits_epilogues(const at::Tensor& hidden_states) const {
  return suits_gelu_epilogue(hidden_states) && linear_fc2_.bias().defined() &&
         has_epilogues(hidden_states, linear_fc1_.weight());
}

at::Tensor Mlp::forward(const at::Tensor& hidden_states) const {
  if (suits_epilogues(hidden_states)) {
    return epilogue_mlp(hidden_states, linear_fc1_.weight(), linear_fc1_.bias(),
                        linear_fc2_.weight(), linear_fc2_.bias());
  }
  return linear_fc2_.forward(activate(hidden_states));
}

}  // namespace meg::nn
