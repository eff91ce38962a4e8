#pragma once

#include <ATen/core/Tensor.h>

#include "libmeg/nn/operators/internal/cross_entropy.h"
#include "libmeg/nn/tensor_parallel.h"

namespace meg::nn {

/// Rows of a table that the ranks share: weight: [v / ranks, h], rank after rank; tokens: [..]
/// int64, 0 to v - 1 (others end the work of a GPU, for which nobody checks them before). Returns
/// [.., h] on each rank. Mirrors Megatron-LM megatron/core/tensor_parallel/layers.py:
/// VocabParallelEmbedding.
at::Tensor vocab_parallel_embedding(const at::Tensor& weight, const at::Tensor& tokens,
                                    const TensorParallel& ranks);

/// Makes label_error, [1] int32 on a GPU, 1 where a label is not 0 to `rows` - 1. On a CPU labels
/// are checked before.
void note_bad_labels(const at::Tensor& labels, int64_t rows, const at::Tensor& label_error);

/// The logits of the whole vocabulary, [.., v], on each rank, of the ranks' parts, [.., v / ranks].
/// Without a history where there are several.
at::Tensor whole_vocabulary(const at::Tensor& logits, const TensorParallel& ranks);

/// cross_entropy_with_gradient where each rank has the logits of its part of the vocabulary alone:
/// [.., v / ranks]; labels: [..], of the whole one. grad_losses: undefined where no gradient is
/// asked for. What the ranks exchange are three numbers a label.
/// Mirrors Megatron-LM megatron/core/tensor_parallel/cross_entropy.py.
LossesAndGradient vocab_parallel_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                               const at::Tensor& grad_losses,
                                               const TensorParallel& ranks);

}  // namespace meg::nn
