#pragma once

#include <optional>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/megatron/argument_table.h"

namespace meg::checkpoint {

/// The arguments whose values change the model, one row for each field, except those that GptConfig
/// reads: files of some dialects have no args, and shapes determine these.
const std::vector<const megatron::ArgumentRow*>& model_arguments();

/// The value of a field in a checkpoint's args, also under the name that older revisions used;
/// nullopt if it is absent.
std::optional<megatron::FieldValue> argument_of(const MegatronCheckpoint& checkpoint,
                                                const megatron::ArgumentRow& row);

}  // namespace meg::checkpoint
