#pragma once

#include <string>

#include "libmeg/checkpoint/megatron/megatron_checkpoint.h"

namespace meg::tools {

/// The checkpoint that --load names, for its args and weights alone: its optimizer is not looked
/// at. fallback: fields for checkpoints without args.
Result<MegatronCheckpoint> open_weights(const std::string& load, const FieldLookup& fallback = {});

}  // namespace meg::tools
