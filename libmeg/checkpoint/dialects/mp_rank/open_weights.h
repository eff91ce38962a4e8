#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// Opens the checkpoint that --load names for its args and weights only; its optimizer is not read.
/// fallback: fields for checkpoints without args. ckpt_step: the iteration instead of the
/// tracker's.
Result<MegatronCheckpoint> open_weights(const std::string& load,
                                        const megatron::FieldLookup& fallback = {},
                                        std::optional<int64_t> ckpt_step = std::nullopt);

}  // namespace meg::checkpoint
