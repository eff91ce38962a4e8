#pragma once

#include <ATen/core/Tensor.h>

#include "libmeg/nn/tensor_parallel.h"

namespace meg::nn {

// The exchanges of tensor-parallel ranks around the matrices that they share, with their gradients.
// A group of one rank gets the tensor itself back. Errors of the group are thrown as StatusError.
// Mirrors Megatron-LM megatron/core/tensor_parallel/mappings.py.

/// Before a matrix divided by rows: gives every rank the hidden states of whole sequences.
/// hidden_states: [b, s, h]; if sequences are split, [b, s / ranks, h].
at::Tensor enter_matrix(const at::Tensor& hidden_states, const TensorParallel& ranks);

/// After a matrix divided by columns: gives every rank the sum over the ranks, or, if sequences are
/// split, its own part of it. Takes ownership of `partial`, [b, s, h].
at::Tensor leave_matrix(const at::Tensor& partial, const TensorParallel& ranks);

/// Gives every rank the sum over the ranks. Takes ownership of `partial`.
at::Tensor sum_of_ranks(const at::Tensor& partial, const TensorParallel& ranks);

/// This rank's part of sequences that every rank has completely: [b, s, h] -> [b, s / ranks, h].
at::Tensor scatter_to_sequence_parallel_region(const at::Tensor& whole,
                                               const TensorParallel& ranks);

}  // namespace meg::nn
