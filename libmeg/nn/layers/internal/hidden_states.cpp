#include "libmeg/nn/layers/internal/hidden_states.h"

#include <ATen/ATen.h>

#include "libmeg/nn/layers/internal/dropout.h"
#include "libmeg/nn/operators/internal/dropout_add_norm.h"

namespace meg::nn {

at::Tensor HiddenDropout::sum_of(const HiddenStates& states) const {
  const auto& [residual, branch] = states;
  if (!branch.defined()) return residual;
  if (residual.is_cuda()) return dropout_add_norm(branch, residual, mask_of(states), {}).sum;
  if (probability_ == 0) return residual + branch;
  return residual + dropout(branch.to(residual.scalar_type()), probability_, generator());
}

kernels::DropoutMask HiddenDropout::mask_of(const HiddenStates& states) const {
  if (!states.branch.defined() || probability_ == 0) return {};
  return draw_dropout_mask(probability_, generator());
}

}  // namespace meg::nn
