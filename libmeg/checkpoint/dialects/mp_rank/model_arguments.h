#pragma once

#include <optional>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/megatron/argument_table.h"

namespace meg::checkpoint {

/// The arguments of which another value makes another model, one row a field, apart from those that
/// GptConfig reads: files of some dialects hold no args and their shapes say these.
const std::vector<const megatron::ArgumentRow*>& model_arguments();

/// What a checkpoint's args say of a field, be it under the name that older revisions had for it;
/// nullopt where they say nothing.
std::optional<megatron::FieldValue> argument_of(const MegatronCheckpoint& checkpoint,
                                                const megatron::ArgumentRow& row);

}  // namespace meg::checkpoint
