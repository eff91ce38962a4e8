#pragma once

#include <cstdint>

#include "libmeg/checkpoint/convert/internal/target_layout.h"
#include "libmeg/checkpoint/convert/internal/transfer_builder.h"
#include "libmeg/checkpoint/transfer/torch_transfer.h"

namespace meg::checkpoint {

/// A rank's distrib_optim.pt: the state of its parameters in the flat buffers of the revision that
/// args tell (without them, by its names: legacy ones are 6ef5bdc's, mcore ones today's core's).
/// If there are several expert-parallel ranks, each has the buffers of its experts, the first those
/// of what they hold alike. path: of the file in the iteration's folder. kUnsupported, with the
/// reason: revisions whose buffers are not written, an optimizer without moments or masters.
/// Mirrors Megatron-LM megatron/core/optimizer/distrib_optimizer.py: get_parameter_state_dp_zero.
Result<TransferTargetFile> add_flat_state(const MegatronCheckpoint& checkpoint,
                                          const TargetLayout& layout, int64_t stage,
                                          const RankPlace& place, std::string path,
                                          TransferBuilder* transfers);

}  // namespace meg::checkpoint
