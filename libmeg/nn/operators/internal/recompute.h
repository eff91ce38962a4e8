#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "libmeg/nn/random_states.h"

namespace meg::nn {

/// Part of the forward pass: computes one tensor from others and from parameters that it refers to.
using Segment = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

/// Runs `segment` and keeps only its inputs; the backward pass runs it again, with the same random
/// numbers, and propagates gradients through it. What the segment refers to must live until then.
/// Mirrors Megatron-LM megatron/core/tensor_parallel/random.py: checkpoint.
at::Tensor recompute(Segment segment, const std::vector<at::Tensor>& inputs, RandomStates& random);

}  // namespace meg::nn
