#pragma once

#include <ATen/core/Tensor.h>

#include "libmeg/nn/operators/internal/cross_entropy.h"
#include "libmeg/nn/tensor_parallel.h"

namespace meg::nn {

/// Rows of a table that the ranks share: weight: [v / ranks, h], rank after rank; tokens: [..]
/// int64, 0 to v - 1. Returns [.., h] on each rank.
/// Mirrors Megatron-LM megatron/core/tensor_parallel/layers.py: VocabParallelEmbedding.
at::Tensor vocab_parallel_embedding(const at::Tensor& weight, const at::Tensor& tokens,
                                    const TensorParallel& ranks);

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
