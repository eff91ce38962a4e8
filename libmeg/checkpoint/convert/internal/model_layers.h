#pragma once

#include <cstdint>
#include <set>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// The layers in which the checkpoint has a parameter.
std::set<int64_t> layers_of(const MegatronCheckpoint& checkpoint);

/// The layers that have experts.
std::set<int64_t> layers_with_experts(const MegatronCheckpoint& checkpoint);

}  // namespace meg::checkpoint
