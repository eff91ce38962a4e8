#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// The loss of each label, in fp32 whatever the logits' dtype. Takes ownership of the logits: the
/// backward pass, which can run once, writes their gradient into the same memory, so that a large
/// vocabulary needs one tensor of logits instead of three.
/// logits: [.., v], not used elsewhere; labels: [..] int64, 0 to v - 1. Returns [..].
/// label_error: [1] int32 on their device; on a GPU, for which nothing waits, a label out of range
/// sets it to 1 and its loss to NaN. On a CPU such a label throws c10::IndexError.
/// Mirrors Megatron-LM megatron/core/tensor_parallel/cross_entropy.py.
at::Tensor cross_entropy(at::Tensor logits, const at::Tensor& labels,
                         const at::Tensor& label_error);

/// Losses, [..] fp32, and the gradient of sum(losses * grad_losses) for the logits, in their shape
/// and dtype.
struct LossesAndGradient {
  at::Tensor losses;
  at::Tensor grad_logits;
};

/// cross_entropy() and its backward pass in a single pass over the logits, for callers that know
/// grad_losses, [..] fp32, beforehand. Gives the same bits. Also takes ownership of the logits;
/// records nothing for autograd.
LossesAndGradient cross_entropy_with_gradient(const at::Tensor& logits, const at::Tensor& labels,
                                              const at::Tensor& grad_losses,
                                              const at::Tensor& label_error);

}  // namespace meg::nn
