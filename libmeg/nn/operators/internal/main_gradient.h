#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// The fp32 array to which all gradients of a 16-bit parameter are added, where the optimizer has
/// given it one as its gradient; undefined: autograd takes what a backward pass returns. A backward
/// pass that adds to it by itself returns nothing for the parameter. Mirrors Megatron-LM's
/// weight.main_grad (--no-gradient-accumulation-fusion turns it off there).
at::Tensor main_gradient(const at::Tensor& parameter);

/// Adds `gradient` to the parameter's main gradient, where there is one: undefined then. Else what
/// was given, for autograd.
at::Tensor left_for_autograd(const at::Tensor& parameter, const at::Tensor& gradient);

}  // namespace meg::nn
