#include "libmeg/checkpoint/verify/internal/diff_state.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <map>
#include <span>

#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rng_entries.h"
#include "libmeg/checkpoint/dialects/mp_rank/model_arguments.h"
#include "libmeg/checkpoint/verify/internal/node_text.h"

namespace meg::checkpoint {
namespace {

/// Bytes of the largest generator's state that is compared by content, as a file may call any
/// tensor a state; Mersenne Twisters have 5 KiB.
constexpr int64_t kLargestState = int64_t{1} << 20;

/// A value of one checkpoint's first file.
struct Place {
  const TorchFile* file = nullptr;
  std::optional<PickleId> node;
};

// Plain values are the same in all files: verify says so, or that they are not.
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

/// Numbers are equal whatever their type: torch's own Adam counts steps in floats, others in ints.
bool is_same_number(const Place& a, const Place& b) {
  constexpr double kFirstInexact = 9007199254740992.0;  // 2^53: integers from here on share doubles
  const std::optional<double> left = node_number(*a.file, *a.node);
  return left.has_value() && std::abs(*left) < kFirstInexact &&
         left == node_number(*b.file, *b.node);
}

/// Fields that both dicts have. Dialects differ in what they keep, so a field of one side alone
/// tells nothing.
void diff_dicts(const std::string& name, const Place& a, const Place& b, CheckpointDiff* diff) {
  if (!a.node.has_value() || !b.node.has_value()) return;
  const PickleGraph& graph = a.file->graph();
  const std::span<const PickleId> pairs = graph.pairs(*a.node);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::optional<std::string_view> key = graph.as_string(pairs[i]);
    // Numbers of parameters depend on the layout.
    if (!key.has_value() || *key == "params") continue;
    const std::optional<PickleId> other = b.file->graph().find(*b.node, *key);
    if (!other.has_value()) continue;
    const std::string a_text = node_text(*a.file, pairs[i + 1]);
    const std::string b_text = node_text(*b.file, *other);
    if (a_text == b_text || is_same_number({a.file, pairs[i + 1]}, {b.file, other})) continue;
    diff->field_differences.push_back({fmt::format("{}, {}", name, *key), a_text, b_text});
  }
}

/// A folder of Hugging Face is of none.
void diff_iterations(const MegatronCheckpoint& a, const MegatronCheckpoint& b,
                     CheckpointDiff* diff) {
  const std::optional<int64_t> left = a.iteration(), right = b.iteration();
  if (!left.has_value() || !right.has_value() || left == right) return;
  diff->field_differences.push_back({"iteration", std::to_string(*left), std::to_string(*right)});
}

void diff_configs(const model::GptConfig& a, const model::GptConfig& b, CheckpointDiff* diff) {
  const auto numbers = [&](const char* name, int64_t model::GptConfig::*field) {
    if (a.*field == b.*field) return;
    diff->field_differences.push_back(
        {fmt::format("args.{}", name), std::to_string(a.*field), std::to_string(b.*field)});
  };
  const auto switches = [&](const char* name, auto field) {
    const bool left = std::invoke(field, a), right = std::invoke(field, b);
    if (left == right) return;
    diff->field_differences.push_back(
        {fmt::format("args.{}", name), left ? "True" : "False", right ? "True" : "False"});
  };
  const auto texts = [&](const char* name, std::string model::GptConfig::*field) {
    if (a.*field == b.*field) return;
    diff->field_differences.push_back({fmt::format("args.{}", name), a.*field, b.*field});
  };
  numbers("num_layers", &model::GptConfig::num_layers);
  numbers("hidden_size", &model::GptConfig::hidden_size);
  numbers("ffn_hidden_size", &model::GptConfig::ffn_hidden_size);
  numbers("num_attention_heads", &model::GptConfig::num_attention_heads);
  numbers("kv_channels", &model::GptConfig::kv_channels);
  numbers("num_query_groups", &model::GptConfig::num_query_groups);
  numbers("max_position_embeddings", &model::GptConfig::max_position_embeddings);
  switches("swiglu", &model::GptConfig::swiglu);
  switches("gated_linear_unit", &model::GptConfig::gated_linear_unit);
  switches("add_bias_linear", &model::GptConfig::add_bias_linear);
  switches("add_qkv_bias", &model::GptConfig::has_qkv_bias);
  switches("qk_layernorm", &model::GptConfig::qk_layernorm);
  switches("untie_embeddings_and_output_weights",
           &model::GptConfig::untie_embeddings_and_output_weights);
  texts("position_embedding_type", &model::GptConfig::position_embedding_type);
  texts("normalization", &model::GptConfig::normalization);
  texts("softmax_type", &model::GptConfig::softmax_type);
  if (a.attention_window != b.attention_window) {
    const auto text = [](const std::optional<int64_t>& tokens) {
      return tokens.has_value() ? fmt::format("{},0", *tokens - 1) : "None";
    };
    diff->field_differences.push_back(
        {"args.window_size", text(a.attention_window), text(b.attention_window)});
  }
}

/// Fields of args that change what the model computes. Revisions differ in which they have; what
/// one side does not know may be its default.
void diff_model_args(const MegatronCheckpoint& a, const MegatronCheckpoint& b,
                     CheckpointDiff* diff) {
  for (const megatron::ArgumentRow* row : model_arguments()) {
    const std::optional<megatron::FieldValue> left = argument_of(a, *row);
    const std::optional<megatron::FieldValue> right = argument_of(b, *row);
    if (!left.has_value() || !right.has_value() || megatron::same_field(*left, *right)) continue;
    diff->field_differences.push_back({fmt::format("args.{}", row->dest),
                                       megatron::field_text(*left), megatron::field_text(*right)});
  }
}

void diff_scalers(const MegatronCheckpoint& a, const MegatronCheckpoint& b, CheckpointDiff* diff) {
  const auto scaler = [](const MegatronCheckpoint& checkpoint) {
    Place found = top(checkpoint, {"optimizer"});
    if (found.node.has_value()) found.node = found.file->graph().find(*found.node, "grad_scaler");
    return found;
  };
  const Place left = scaler(a);
  const Place right = scaler(b);
  diff_dicts("grad_scaler", left, right, diff);
  if (left.node.has_value() == right.node.has_value()) return;
  diff->notes.push_back(
      fmt::format("only {} has a loss scaler", left.node.has_value() ? "A" : "B"));
}

/// What a state holds, to compare: bytes of a tensor, text of everything else.
std::string content_of(const TorchFile& file, PickleId id) {
  const TensorView* tensor = file.tensor(id);
  if (tensor == nullptr || tensor->bytes() > kLargestState) return node_text(file, id);
  std::string bytes(static_cast<size_t>(tensor->bytes()), '\0');
  const Status status = file.read_elements(*tensor, 0, std::as_writable_bytes(std::span(bytes)));
  // A state that cannot be read differs from any that can.
  return status.ok() ? bytes : status.message();
}

void diff_rng_of_rank(const RankFile& a, const RankFile& b, CheckpointDiff* diff) {
  std::map<std::string, PickleId> others;
  for (auto& [name, node] : rng_entries(*b.file)) others[name] = node;
  const auto add = [&](const std::string& name, std::string left, std::string right) {
    diff->field_differences.push_back(
        {fmt::format("{} of {}", name, a.folder_name), std::move(left), std::move(right)});
  };
  for (const auto& [name, node] : rng_entries(*a.file)) {
    const auto other = others.find(name);
    if (other == others.end()) {
      add(name, "a state", "none");
      continue;
    }
    const PickleKind kind = a.file->graph().node(node).kind;
    // Their entries come one by one with names of their own.
    const bool is_container =
        a.file->tensor(node) == nullptr && (kind == PickleKind::kDict || kind == PickleKind::kList);
    if (!is_container && content_of(*a.file, node) != content_of(*b.file, other->second)) {
      add(name, "a state", "another");
    }
    others.erase(other);
  }
  for (const auto& [name, node] : others) add(name, "none", "a state");
}

/// Other layouts have other generators.
void diff_rng(const MegatronCheckpoint& a, const MegatronCheckpoint& b, CheckpointDiff* diff) {
  const auto has_states = [](const MegatronCheckpoint& checkpoint) {
    return !rng_entries(first_file(checkpoint)).empty();
  };
  if (!has_states(a) && !has_states(b)) return;
  if (has_states(a) != has_states(b)) {
    diff->notes.push_back(
        fmt::format("only {} has states of random number generators", has_states(a) ? "A" : "B"));
  } else if (a.tensor_model_parallel_size() != b.tensor_model_parallel_size() ||
             a.pipeline_model_parallel_size() != b.pipeline_model_parallel_size()) {
    diff->notes.emplace_back(
        "states of random number generators are not compared: each rank has its own, and the "
        "layouts differ");
  } else {
    for (size_t i = 0; i < a.files().size(); ++i) {
      diff_rng_of_rank(a.files()[i], b.files()[i], diff);
    }
  }
}

}  // namespace

void diff_state(const MegatronCheckpoint& a, const MegatronCheckpoint& b, bool compare_optimizer,
                CheckpointDiff* diff) {
  diff_iterations(a, b, diff);
  diff_configs(a.config(), b.config(), diff);
  diff_model_args(a, b, diff);
  // Without the optimizer nothing below is compared either: it belongs to a run and not to a model.
  if (!compare_optimizer) return;
  for (const ParamGroupKind kind :
       {ParamGroupKind::kDecay, ParamGroupKind::kDecoupled, ParamGroupKind::kNoDecay}) {
    diff_dicts(fmt::format("param_groups, {}", param_group_text(kind)), group(a, kind),
               group(b, kind), diff);
  }
  diff_scalers(a, b, diff);
  diff_rng(a, b, diff);
  const Place a_scheduler = top(a, {"opt_param_scheduler", "lr_scheduler"});
  const Place b_scheduler = top(b, {"opt_param_scheduler", "lr_scheduler"});
  diff_dicts("scheduler", a_scheduler, b_scheduler, diff);
  if (a_scheduler.node.has_value() != b_scheduler.node.has_value()) {
    diff->notes.push_back(
        fmt::format("only {} has a scheduler", a_scheduler.node.has_value() ? "A" : "B"));
  }
}

}  // namespace meg::checkpoint
