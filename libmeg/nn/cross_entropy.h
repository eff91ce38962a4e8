#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// The loss of each label, in fp32 whatever the logits' type.
/// logits: [.., v]; labels: [..] int64, 0 to v - 1. Returns [..].
/// Mirrors Megatron-LM megatron/core/tensor_parallel/cross_entropy.py.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace meg::nn
