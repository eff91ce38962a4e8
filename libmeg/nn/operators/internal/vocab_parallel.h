#pragma once

#include <ATen/core/Tensor.h>

#include "libmeg/nn/operators/internal/cross_entropy.h"
#include "libmeg/nn/tensor_parallel.h"

namespace meg::nn {

/// Looks up rows of a table that is divided over the ranks. weight: [v / ranks, h], rank after
/// rank; tokens: [..] int64, 0 to v - 1 (on a GPU, where they are not checked, others stop the work
/// of the device). Returns [.., h] on each rank. Mirrors Megatron-LM
/// megatron/core/tensor_parallel/layers.py: VocabParallelEmbedding.
at::Tensor vocab_parallel_embedding(const at::Tensor& weight, const at::Tensor& tokens,
                                    const TensorParallel& ranks);

/// Sets label_error, [1] int32 on a GPU, to 1 if a label is not between 0 and `rows` - 1. On a CPU
/// labels are checked beforehand.
void note_bad_labels(const at::Tensor& labels, int64_t rows, const at::Tensor& label_error);

/// Gathers the ranks' parts of the logits, [.., v / ranks], into those of the whole vocabulary,
/// [.., v], on each rank. Without autograd history if there are several ranks.
at::Tensor whole_vocabulary(const at::Tensor& logits, const TensorParallel& ranks);

/// cross_entropy_with_gradient() if each rank has only the logits of its part of the vocabulary:
/// [.., v / ranks]. labels: [..], in the whole vocabulary. grad_losses: undefined if no gradient is
/// needed. The ranks exchange three numbers for each label.
/// Mirrors Megatron-LM megatron/core/tensor_parallel/cross_entropy.py.
LossesAndGradient vocab_parallel_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                               const at::Tensor& grad_losses,
                                               const TensorParallel& ranks);

}  // namespace meg::nn
