#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/hybrid_pattern.h"

namespace meg::checkpoint {

/// The value of a node as a plain field: None, bool, int, float, text; a class by its dotted name
/// ("torch.float16"). nullopt for everything else.
std::optional<megatron::FieldValue> field_value(const PickleGraph& graph, PickleId id);

/// The same for a field of this name that GptConfig::from_fields reads.
std::optional<megatron::FieldValue> config_field(const PickleGraph& graph, PickleId id,
                                                 std::string_view name);

/// See MegatronCheckpoint::described_arg.
megatron::FieldValue arg_field(const PickleGraph& graph, PickleId id);

/// A field of args, which is an argparse.Namespace or a dict; nullopt if there is none.
std::optional<PickleId> find_arg(const PickleGraph& graph, PickleId args, std::string_view name);

/// The names of all fields of args.
std::set<std::string> arg_names(const PickleGraph& graph, PickleId args);

/// The layer pattern of a hybrid model's args (--hybrid-layer-pattern or its older names); nullopt
/// if they are not a hybrid model's. Errors are those of model::parse_hybrid_pattern and name the
/// field.
Result<std::optional<model::HybridPattern>> hybrid_pattern(const PickleGraph& graph,
                                                           std::optional<PickleId> args);

/// Returns the value that the GPT model with the same layers has, for fields that hybrid models
/// count differently; nullopt for all others.
std::optional<megatron::FieldValue> gpt_field(const model::HybridPattern& pattern,
                                              std::string_view name);

/// An integer in args; nullopt if it is absent, None or of another type.
std::optional<int64_t> int_arg(const PickleGraph& graph, PickleId args, std::string_view name);

/// int_arg() if it is a number of ranks or parts that a run can have, from 1 to 2^20.
std::optional<int64_t> size_arg(const PickleGraph& graph, PickleId args, std::string_view name);

}  // namespace meg::checkpoint
