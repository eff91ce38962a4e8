#pragma once

#include <ATen/core/Tensor.h>

#include "libmeg/nn/random_states.h"

namespace meg::nn {

/// Sets each element of input to zero with this probability and divides the others by 1 -
/// probability; returns input itself if probability is 0. Draws from `generator`, which is on
/// input's device.
at::Tensor dropout(const at::Tensor& input, double probability, at::Generator& generator);

}  // namespace meg::nn
