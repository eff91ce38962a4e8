#pragma once

#include <optional>
#include <string_view>

#include "libmeg/checkpoint/dialects/mp_rank/training_args.h"
#include "libmeg/megatron/argument_table.h"

namespace meg::checkpoint {

/// A field of args as a command line would have given it, lists as words; nullopt if args have no
/// such field, or None.
std::optional<megatron::FieldValue> run_field(const TrainingArgs& args, std::string_view name);

/// The field of a row, also under the names that older revisions used.
std::optional<megatron::FieldValue> run_argument(const TrainingArgs& args,
                                                 const megatron::ArgumentRow& row);

}  // namespace meg::checkpoint
