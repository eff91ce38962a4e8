#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// The fp32 array to which all gradients of a 16-bit parameter are added, if the optimizer has set
/// one as its gradient; undefined: autograd uses the gradient that a backward pass returns. A
/// backward pass that adds to the array itself returns nothing for the parameter. Mirrors
/// Megatron-LM's weight.main_grad (--no-gradient-accumulation-fusion turns it off there).
at::Tensor main_gradient(const at::Tensor& parameter);

/// Adds `gradient` to the parameter's main gradient and returns an undefined tensor; if there is
/// none, returns `gradient` for autograd.
at::Tensor left_for_autograd(const at::Tensor& parameter, const at::Tensor& gradient);

}  // namespace meg::nn
