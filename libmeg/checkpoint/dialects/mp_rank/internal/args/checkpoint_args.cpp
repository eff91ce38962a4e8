#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"

#include <array>
#include <span>
#include <string>
#include <utility>

#include "libmeg/model/layer_lists.h"

// Args are an argparse.Namespace, which pickles as an object with a dict of attributes, or in some
// files a plain dict. Values are taken as far as they are plain: what a field means is asked
// elsewhere.

namespace meg::checkpoint {

namespace {

/// Fields that hold a hybrid model's layers, today's name first.
constexpr std::array<std::string_view, 2> kPatternFields = {"hybrid_layer_pattern",
                                                            "hybrid_override_pattern"};

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
    // A class such as torch.float32, by its dotted name.
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

std::optional<megatron::FieldValue> config_field(const PickleGraph& graph, PickleId id,
                                                 std::string_view name) {
  // The lists among them. Forks have lists where Megatron has a size (num_experts).
  if (model::is_list_field(name)) return arg_field(graph, id);
  return field_value(graph, id);
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

Result<std::optional<model::HybridPattern>> hybrid_pattern(const PickleGraph& graph,
                                                           std::optional<PickleId> args) {
  for (const std::string_view name : kPatternFields) {
    const auto id = args.has_value() ? find_arg(graph, *args, name) : std::nullopt;
    const std::optional<std::string_view> text =
        id.has_value() ? graph.as_string(*id) : std::nullopt;
    if (!text.has_value()) continue;
    Result<model::HybridPattern> pattern = model::parse_hybrid_pattern(*text);
    if (!pattern.has_value()) return pattern.error().with_prefix(std::string(name));
    return std::optional(*std::move(pattern));
  }
  return std::optional<model::HybridPattern>();
}

std::optional<megatron::FieldValue> gpt_field(const model::HybridPattern& pattern,
                                              std::string_view name) {
  if (name == "num_layers" || name == "encoder_num_layers") return pattern.num_layers();
  if (name == "moe_layer_freq") return pattern.moe_layer_freq();
  // A hybrid pattern that is a GPT model in disguise (an attention and an MLP layer in turn) is
  // shown as one: half as many layers, and no pattern.
  if (name == "is_hybrid_model") return megatron::FieldValue(false);
  const bool is_pattern = name == kPatternFields[0] || name == kPatternFields[1];
  return is_pattern || name == "spec" ? std::optional(megatron::FieldValue()) : std::nullopt;
}

std::optional<int64_t> int_arg(const PickleGraph& graph, PickleId args, std::string_view name) {
  const std::optional<PickleId> id = find_arg(graph, args, name);
  return id.has_value() ? graph.as_int(*id) : std::nullopt;
}

std::optional<int64_t> size_arg(const PickleGraph& graph, PickleId args, std::string_view name) {
  constexpr int64_t kMost = 1 << 20;
  const std::optional<int64_t> size = int_arg(graph, args, name);
  return size.has_value() && *size > 0 && *size <= kMost ? size : std::nullopt;
}

}  // namespace meg::checkpoint
