#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "libmeg/nn/random_states.h"

namespace meg::nn {

/// A stretch of the forward pass: one tensor from others, and from parameters it knows.
using Stretch = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

/// Runs `stretch` and keeps nothing but its inputs; the backward pass runs it again, with the same
/// random numbers, and goes back through that. What the stretch refers to must live until then.
/// Mirrors Megatron-LM megatron/core/tensor_parallel/random.py: checkpoint.
at::Tensor recompute(Stretch stretch, const std::vector<at::Tensor>& inputs, RandomStates& random);

}  // namespace meg::nn
