#pragma once

#include <cstdint>
#include <memory>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"

namespace meg::checkpoint {

/// A rank's file of which the experts of a layer stand in two matrices (`mlp.experts.weight1` and
/// `weight2`, core's grouped form before Transformer Engine's, --moe-use-legacy-grouped-gemm) as
/// the file that it would be with one expert after another; other files as they are.
/// experts: of this rank, in each layer. Optimizers, which number their parameters otherwise, are
/// refused unless ignore_optimizer leaves them out.
/// Mirrors Megatron-LM's GroupedMLP.forward: weight1 is seen as [experts, hidden, rows of
/// linear_fc1], weight2 as [experts, columns of linear_fc2, hidden].
Result<std::shared_ptr<const TorchFile>> with_single_experts(std::shared_ptr<const TorchFile> file,
                                                             int64_t experts,
                                                             bool ignore_optimizer);

}  // namespace meg::checkpoint
