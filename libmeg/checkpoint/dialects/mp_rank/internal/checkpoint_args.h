#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/model/gpt_config.h"

namespace meg::checkpoint {

/// A node as a plain field: None, bool, int, float, text; a class by its dotted name
/// ("torch.float16"). nullopt for everything else.
std::optional<megatron::FieldValue> field_value(const PickleGraph& graph, PickleId id);

/// See MegatronCheckpoint::described_arg.
megatron::FieldValue arg_field(const PickleGraph& graph, PickleId id);

/// A field of args, which is an argparse.Namespace or a dict. nullopt where there is none.
std::optional<PickleId> find_arg(const PickleGraph& graph, PickleId args, std::string_view name);

/// The names of all fields of args.
std::set<std::string> arg_names(const PickleGraph& graph, PickleId args);

/// A whole number among args; nullopt where it is absent, None or of another type.
std::optional<int64_t> int_arg(const PickleGraph& graph, PickleId args, std::string_view name);

}  // namespace meg::checkpoint
