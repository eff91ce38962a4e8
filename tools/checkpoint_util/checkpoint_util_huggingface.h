#pragma once

#include <string>

#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "tools/checkpoint_util/checkpoint_util_flags.h"
#include "tools/checkpoint_util/checkpoint_util_report.h"

namespace meg::tools {

/// kInvalidArgument where --loader or --checkpoint-type name another kind of checkpoint than was
/// found.
Status check_loader(const CheckpointUtilArguments& arguments,
                    const checkpoint::CheckpointFolder& folder);

/// Converts a Megatron checkpoint to a Hugging Face folder.
Status export_huggingface(const CheckpointUtilArguments& arguments,
                          const checkpoint::MegatronCheckpoint& checkpoint, UtilReport& report);

}  // namespace meg::tools
