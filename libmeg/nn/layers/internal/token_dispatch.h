#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "libmeg/nn/expert_parallel.h"
#include "libmeg/nn/layers/internal/router.h"

namespace meg::nn {

/// The output of one of this rank's experts, by its number among them, for n tokens, 0 or more:
/// [n, h] -> [n, h]. Of an expert that several ranks split, this rank's part of the sum.
using ComputeExpert = std::function<at::Tensor(int64_t expert, const at::Tensor& tokens)>;

// What the experts of each token put out for it, in the router's proportions: [t, h] -> [t, h].
// The experts may be other ranks'. Called by all of `ranks` together, each with tokens of its own.
// num_experts: of all ranks.

/// Sends each token to the ranks of its experts alone, and their outputs back. The numbers of
/// tokens may differ between ranks.
/// Mirrors Megatron-LM megatron/core/transformer/moe/token_dispatcher.py:
/// MoEAlltoAllTokenDispatcher.
at::Tensor dispatch_all_to_all(const at::Tensor& tokens, const Routing& routing,
                               int64_t num_experts, const ExpertParallel& ranks,
                               const ComputeExpert& compute);

/// The plain form, as the reference of the other: gives all ranks the tokens of all, which must be
/// equally many on each. Mirrors MoEAllGatherTokenDispatcher.
at::Tensor dispatch_all_gather(const at::Tensor& tokens, const Routing& routing,
                               int64_t num_experts, const ExpertParallel& ranks,
                               const ComputeExpert& compute);

}  // namespace meg::nn
