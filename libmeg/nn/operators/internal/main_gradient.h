#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// The fp32 array to which all gradients of a 16-bit parameter are added, where the optimizer has
/// given it one as its gradient; undefined: autograd takes what a backward pass returns. A backward
/// pass that adds to it by itself returns nothing for the parameter. Mirrors Megatron-LM's
/// weight.main_grad (--no-gradient-accumulation-fusion turns it off there).
at::Tensor main_gradient(const at::Tensor& parameter);

}  // namespace meg::nn
