#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_args.h"

#include <span>
#include <string>

namespace meg::checkpoint {

namespace {

/// An element of a list, as a command line would say it; of an object the name of its class.
std::string word_of(const PickleGraph& graph, PickleId id) {
  const PickleNode& node = graph.node(id);
  if (node.kind == PickleKind::kString) return node.text;
  if (node.kind == PickleKind::kInt) return std::to_string(node.integer);
  if (node.kind == PickleKind::kFloat) return megatron::field_text(node.real);
  if (node.kind == PickleKind::kCall) return graph.class_name(id);
  return std::string(pickle_kind_name(node.kind));
}

}  // namespace

std::optional<megatron::FieldValue> field_value(const PickleGraph& graph, PickleId id) {
  const PickleNode& node = graph.node(id);
  switch (node.kind) {
    case PickleKind::kNone:
      return megatron::FieldValue();
    case PickleKind::kBool:
      return megatron::FieldValue(node.boolean);
    case PickleKind::kInt:
      return megatron::FieldValue(node.integer);
    case PickleKind::kFloat:
      return megatron::FieldValue(node.real);
    case PickleKind::kString:
      return megatron::FieldValue(node.text);
    case PickleKind::kGlobal:
      return megatron::FieldValue(graph.class_name(id));
    default:
      return std::nullopt;
  }
}

megatron::FieldValue arg_field(const PickleGraph& graph, PickleId id) {
  if (std::optional<megatron::FieldValue> value = field_value(graph, id)) return *std::move(value);
  const PickleNode& node = graph.node(id);
  if (node.kind != PickleKind::kTuple && node.kind != PickleKind::kList) return word_of(graph, id);
  std::vector<std::string> words;
  for (const PickleId element : node.children) words.push_back(word_of(graph, element));
  return words;
}

std::optional<PickleId> find_arg(const PickleGraph& graph, PickleId args, std::string_view name) {
  if (graph.node(args).kind == PickleKind::kDict) return graph.find(args, name);
  return graph.attribute(args, name);
}

std::set<std::string> arg_names(const PickleGraph& graph, PickleId args) {
  const bool is_dict = graph.node(args).kind == PickleKind::kDict;
  const std::optional<PickleId> fields = is_dict ? args : graph.attributes(args);
  if (!fields.has_value()) return {};
  std::set<std::string> names;
  const std::span<const PickleId> pairs = graph.pairs(*fields);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (const auto name = graph.as_string(pairs[i])) names.emplace(*name);
  }
  return names;
}

std::optional<int64_t> int_arg(const PickleGraph& graph, PickleId args, std::string_view name) {
  const std::optional<PickleId> id = find_arg(graph, args, name);
  return id.has_value() ? graph.as_int(*id) : std::nullopt;
}

}  // namespace meg::checkpoint
