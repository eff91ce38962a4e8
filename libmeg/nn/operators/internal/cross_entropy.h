#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// The loss of each label, in fp32 whatever the logits' type. Takes the logits over: the backward
/// pass, which can run once, writes their gradient into the same memory, so that a large vocabulary
/// costs one tensor of logits and not three.
/// logits: [.., v], used nowhere else; labels: [..] int64, 0 to v - 1. Returns [..].
/// label_error: [1] int32 on their device; on a GPU, which nobody waits for, a label outside makes
/// it 1 and its own loss NaN. On a CPU it is a c10::IndexError.
/// Mirrors Megatron-LM megatron/core/tensor_parallel/cross_entropy.py.
at::Tensor cross_entropy(at::Tensor logits, const at::Tensor& labels,
                         const at::Tensor& label_error);

/// [..] fp32 losses, and the gradient of sum(losses * grad_losses) for the logits, in their shape
/// and type.
struct LossesAndGradient {
  at::Tensor losses;
  at::Tensor grad_logits;
};

/// cross_entropy and its backward pass in one visit to the logits, for those who know grad_losses,
/// [..] fp32, beforehand: the same bits. Takes the logits over, too; records nothing.
LossesAndGradient cross_entropy_with_gradient(const at::Tensor& logits, const at::Tensor& labels,
                                              const at::Tensor& grad_losses,
                                              const at::Tensor& label_error);

}  // namespace meg::nn
