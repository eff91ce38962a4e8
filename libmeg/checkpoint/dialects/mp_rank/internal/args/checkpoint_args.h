#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/hybrid_pattern.h"

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

/// The pattern of a hybrid model's args, --hybrid-layer-pattern or as it was called before;
/// nullopt: they are no hybrid model's. See model::parse_hybrid_pattern for errors, which name the
/// field.
Result<std::optional<model::HybridPattern>> hybrid_pattern(const PickleGraph& graph,
                                                           std::optional<PickleId> args);

/// A field as args of the GPT model with the same layers have it, where these are a hybrid model's;
/// nullopt for the other fields.
std::optional<megatron::FieldValue> gpt_field(const model::HybridPattern& pattern,
                                              std::string_view name);

/// A whole number among args; nullopt where it is absent, None or of another type.
std::optional<int64_t> int_arg(const PickleGraph& graph, PickleId args, std::string_view name);

}  // namespace meg::checkpoint
