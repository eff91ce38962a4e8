#pragma once

#include <ATen/core/Tensor.h>

#include "libmeg/nn/random_states.h"

namespace meg::nn {

/// input with each element zero with this probability and the others divided by 1 - probability;
/// input itself where probability is 0. Draws from `generator`, which is on input's device.
at::Tensor dropout(const at::Tensor& input, double probability, at::Generator& generator);

}  // namespace meg::nn
