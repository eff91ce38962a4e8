#include "libmeg/checkpoint/verify/diff_state.h"

#include <fmt/format.h>

#include "libmeg/checkpoint/verify/node_text.h"

namespace meg {
namespace {

/// A value of one checkpoint's first file.
struct Place {
  const TorchFile* file = nullptr;
  std::optional<PickleId> node;
};

const TorchFile& first_file(const MegatronCheckpoint& checkpoint) {
  return *checkpoint.files()[0].file;
}

Place top(const MegatronCheckpoint& checkpoint, std::initializer_list<const char*> keys) {
  const TorchFile& file = first_file(checkpoint);
  for (const char* key : keys) {
    if (const auto node = file.graph().find(file.root(), key)) return {&file, node};
  }
  return {&file, std::nullopt};
}

Place group(const MegatronCheckpoint& checkpoint, ParamGroupKind kind) {
  const ParamGroup* found = checkpoint.optimizer().group(kind);
  if (found == nullptr) return {&first_file(checkpoint), std::nullopt};
  return {checkpoint.files()[static_cast<size_t>(found->file)].file.get(), found->node};
}

/// Fields that both dicts have. Dialects differ in what they keep, so a field of one side alone
/// tells nothing.
void diff_dicts(const std::string& name, const Place& a, const Place& b, CheckpointDiff* diff) {
  if (!a.node.has_value() || !b.node.has_value()) return;
  const PickleGraph& graph = a.file->graph();
  const std::span<const PickleId> pairs = graph.pairs(*a.node);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::optional<std::string_view> key = graph.as_string(pairs[i]);
    if (!key.has_value() || *key == "params") continue;
    const std::optional<PickleId> other = b.file->graph().find(*b.node, *key);
    if (!other.has_value()) continue;
    const std::string a_text = node_text(*a.file, pairs[i + 1]);
    const std::string b_text = node_text(*b.file, *other);
    if (a_text == b_text) continue;
    diff->field_differences.push_back({fmt::format("{}, {}", name, *key), a_text, b_text});
  }
}

void diff_iterations(const MegatronCheckpoint& a, const MegatronCheckpoint& b,
                     CheckpointDiff* diff) {
  const auto text = [](const std::optional<int64_t>& value) {
    return value.has_value() ? std::to_string(*value) : std::string("none");
  };
  if (a.iteration() == b.iteration()) return;
  diff->field_differences.push_back({"iteration", text(a.iteration()), text(b.iteration())});
}

void diff_configs(const GptConfig& a, const GptConfig& b, CheckpointDiff* diff) {
  const auto numbers = [&](const char* name, int64_t GptConfig::*field) {
    if (a.*field == b.*field) return;
    diff->field_differences.push_back(
        {fmt::format("args.{}", name), std::to_string(a.*field), std::to_string(b.*field)});
  };
  const auto switches = [&](const char* name, bool GptConfig::*field) {
    if (a.*field == b.*field) return;
    diff->field_differences.push_back(
        {fmt::format("args.{}", name), a.*field ? "True" : "False", b.*field ? "True" : "False"});
  };
  const auto texts = [&](const char* name, std::string GptConfig::*field) {
    if (a.*field == b.*field) return;
    diff->field_differences.push_back({fmt::format("args.{}", name), a.*field, b.*field});
  };
  numbers("num_layers", &GptConfig::num_layers);
  numbers("hidden_size", &GptConfig::hidden_size);
  numbers("ffn_hidden_size", &GptConfig::ffn_hidden_size);
  numbers("num_attention_heads", &GptConfig::num_attention_heads);
  numbers("kv_channels", &GptConfig::kv_channels);
  numbers("num_query_groups", &GptConfig::num_query_groups);
  numbers("max_position_embeddings", &GptConfig::max_position_embeddings);
  switches("swiglu", &GptConfig::swiglu);
  switches("gated_linear_unit", &GptConfig::gated_linear_unit);
  switches("add_bias_linear", &GptConfig::add_bias_linear);
  switches("add_qkv_bias", &GptConfig::add_qkv_bias);
  switches("qk_layernorm", &GptConfig::qk_layernorm);
  switches("untie_embeddings_and_output_weights", &GptConfig::untie_embeddings_and_output_weights);
  texts("position_embedding_type", &GptConfig::position_embedding_type);
  texts("normalization", &GptConfig::normalization);
}

}  // namespace

void diff_state(const MegatronCheckpoint& a, const MegatronCheckpoint& b, bool compare_optimizer,
                CheckpointDiff* diff) {
  diff_iterations(a, b, diff);
  diff_configs(a.config(), b.config(), diff);
  if (!compare_optimizer) return;
  for (const ParamGroupKind kind :
       {ParamGroupKind::kDecay, ParamGroupKind::kDecoupled, ParamGroupKind::kNoDecay}) {
    diff_dicts(fmt::format("param_groups, {}", param_group_text(kind)), group(a, kind),
               group(b, kind), diff);
  }
  const Place a_scheduler = top(a, {"opt_param_scheduler", "lr_scheduler"});
  const Place b_scheduler = top(b, {"opt_param_scheduler", "lr_scheduler"});
  diff_dicts("scheduler", a_scheduler, b_scheduler, diff);
  if (a_scheduler.node.has_value() != b_scheduler.node.has_value()) {
    diff->notes.push_back(
        fmt::format("only {} has a scheduler", a_scheduler.node.has_value() ? "A" : "B"));
  }
}

}  // namespace meg
