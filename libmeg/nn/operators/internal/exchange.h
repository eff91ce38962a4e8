#pragma once

#include <ATen/core/Tensor.h>

#include "libmeg/nn/tensor_parallel.h"

namespace meg::nn {

// What tensor-parallel ranks exchange around the matrices that they share, with its gradient. A
// group of one rank gets the tensor itself back. Errors of the group fly as StatusError.
// Mirrors Megatron-LM megatron/core/tensor_parallel/mappings.py.

/// In front of a matrix that is cut by rows: the hidden states of whole sequences, on each rank.
/// hidden_states: [b, s, h], of sequences that are split [b, s / ranks, h].
at::Tensor enter_matrix(const at::Tensor& hidden_states, const TensorParallel& ranks);

/// Behind a matrix that is cut by columns: the sum over the ranks, on each rank; of sequences that
/// are split its own stretch. Takes `partial`, [b, s, h], over.
at::Tensor leave_matrix(const at::Tensor& partial, const TensorParallel& ranks);

/// The sum over the ranks, on each of them. Takes `partial` over.
at::Tensor sum_of_ranks(const at::Tensor& partial, const TensorParallel& ranks);

/// This rank's stretch of sequences that each rank has whole: [b, s, h] -> [b, s / ranks, h].
at::Tensor stretch_of_sequences(const at::Tensor& whole, const TensorParallel& ranks);

}  // namespace meg::nn
