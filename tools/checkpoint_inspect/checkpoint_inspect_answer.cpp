#include "tools/checkpoint_inspect/checkpoint_inspect_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "libmeg/checkpoint/inspect/named_code.h"
#include "libmeg/checkpoint/inspect/pickle_outline.h"
#include "tools/common/field_flags.h"
#include "tools/common/json_output.h"

// The answer of checkpoint_inspect as one JSON object. --json prints it as it is; text and HTML are
// made of it, so that all three say the same.

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

// Bytes of one value: longer ones are cut, as a file may hold any text.
constexpr size_t kArgBytes = 100'000;
/// What all values of args may take as text, beside a multiple of the files' bytes.
constexpr uint64_t kLeastTextBudget = uint64_t{1} << 20;

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value.has_value() ? ordered_json(*value) : ordered_json();
}

// JSON has no NaN and no infinities.
ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json();
}

ordered_json error_json(const Status& status) {
  return status.ok() ? ordered_json() : ordered_json(with_flags(status.message()));
}

void add_layout(const checkpoint::CheckpointSummary& summary, ordered_json& answer) {
  const checkpoint::CheckpointFolder& folder = summary.folder;
  answer["folder"] = folder.folder;
  answer["format"] = folder.folder.ends_with(".safetensors")
                         ? "one safetensors file"
                         : checkpoint::checkpoint_format_text(folder.format);
  answer["iteration"] = or_null(summary.iteration);
  answer["release"] = folder.is_release;
  answer["checkpoint_version"] = or_null(summary.checkpoint_version);
  answer["names"] = summary.family.has_value()
                        ? ordered_json(model::name_family_text(*summary.family))
                        : ordered_json();
  answer["tensor_model_parallel_size"] = summary.tensor_model_parallel_size;
  answer["pipeline_model_parallel_size"] = summary.pipeline_model_parallel_size;
  answer["virtual_pipeline_model_parallel_size"] = summary.virtual_pipeline_model_parallel_size;
  answer["expert_model_parallel_size"] = summary.expert_model_parallel_size;
  answer["expert_tensor_parallel_size"] = summary.expert_tensor_parallel_size;
  answer["sizes_from"] = summary.sizes_are_from_args ? "args" : "names";
  answer["whole"] = summary.whole.has_value();
  answer["problem"] = error_json(summary.whole_status);
}

void add_files(const checkpoint::CheckpointSummary& summary, ordered_json& answer) {
  answer["bytes"] = summary.bytes;
  answer["files"] = ordered_json::array();
  for (const checkpoint::FileSummary& file : summary.files) {
    answer["files"].push_back({{"path", file.path},
                               {"bytes", file.bytes},
                               {"tensors", file.contents.tensors.size()},
                               {"tensors_cut", file.contents.is_cut},
                               {"parameters", file.parameters},
                               {"error", error_json(file.status)}});
  }
  answer["ranks"] = ordered_json::array();
  for (const checkpoint::RankSummary& rank : summary.ranks) {
    answer["ranks"].push_back({{"name", rank.name},
                               {"tensor_rank", rank.tensor_rank},
                               {"pipeline_rank", rank.pipeline_rank},
                               {"expert_rank", rank.expert_rank},
                               {"parameters", or_null(rank.parameters)},
                               {"bytes", rank.bytes},
                               {"model_bytes", rank.tensor_bytes[0]},
                               {"optimizer_bytes", rank.tensor_bytes[1]},
                               {"other_bytes", rank.tensor_bytes[2]}});
  }
  answer["missing_ranks"] = summary.missing_ranks;
}

ordered_json model_json(const model::GptConfig& config) {
  return {{"num_layers", config.num_layers},
          {"hidden_size", config.hidden_size},
          {"ffn_hidden_size", config.ffn_hidden_size},
          {"num_attention_heads", config.num_attention_heads},
          {"kv_channels", config.kv_channels},
          {"num_query_groups", config.num_query_groups},
          {"seq_length", config.seq_length},
          {"max_position_embeddings", config.max_position_embeddings},
          {"position_embedding_type", config.position_embedding_type},
          {"normalization", config.normalization},
          {"swiglu", config.swiglu},
          {"gated_linear_unit", config.gated_linear_unit},
          {"add_bias_linear", config.add_bias_linear},
          {"untie_embeddings_and_output_weights", config.untie_embeddings_and_output_weights},
          {"make_vocab_size_divisible_by", config.make_vocab_size_divisible_by},
          {"num_experts", or_null(config.num_experts)}};
}

void add_content(const checkpoint::CheckpointSummary& summary, ordered_json& answer) {
  answer["model"] = summary.config.has_value() ? model_json(*summary.config) : ordered_json();
  answer["parameters"] = or_null(summary.parameters);
  answer["unpadded_parameters"] = or_null(summary.unpadded_parameters);
  answer["padded_vocab_size"] = or_null(summary.padded_vocab_size);
  answer["true_vocab_size"] = or_null(summary.true_vocab_size);
  answer["dtypes"] = ordered_json::array();
  for (const checkpoint::TensorShare& share : summary.shares) {
    answer["dtypes"].push_back({{"group", checkpoint::tensor_group_text(share.group)},
                                {"dtype", share.dtype},
                                {"tensors", share.tensors},
                                {"elements", share.elements},
                                {"bytes", share.bytes}});
  }
  answer["optimizer"] = {{"form", checkpoint::optimizer_form_text(summary.optimizer)},
                         {"bytes", summary.optimizer_bytes}};
  answer["grad_scaler"] = summary.has_grad_scaler;
  answer["scheduler"] = summary.has_scheduler;
  answer["rng"] = summary.has_rng;
}

/// Texts of values, all of them within a budget: many args may share one long text.
class ValueTexts {
 public:
  ValueTexts(const checkpoint::PickleGraph& graph, uint64_t budget)
      : graph_(graph), left_(budget) {}

  std::string describe(checkpoint::PickleId id) {
    constexpr uint64_t kLeast = 200;
    // Every value may show its beginning, even when the budget is spent.
    std::string text =
        graph_.describe(id, static_cast<size_t>(std::clamp<uint64_t>(left_, kLeast, kArgBytes)));
    left_ -= std::min<uint64_t>(left_, text.size());
    return text;
  }

  /// A string itself, or cut as its description where it is too long.
  std::string plain(checkpoint::PickleId id) {
    const std::string& text = graph_.node(id).text;
    if (text.size() > left_) return describe(id);
    left_ -= text.size();
    return text;
  }

 private:
  const checkpoint::PickleGraph& graph_;
  uint64_t left_;
};

/// A plain Python value as itself, anything else as Python's text.
ordered_json value_json(const checkpoint::PickleGraph& graph, checkpoint::PickleId id,
                        ValueTexts* texts) {
  const checkpoint::PickleNode& node = graph.node(id);
  switch (node.kind) {
    case checkpoint::PickleKind::kNone:
      return nullptr;
    case checkpoint::PickleKind::kBool:
      return node.boolean;
    case checkpoint::PickleKind::kInt:
      return node.integer;
    case checkpoint::PickleKind::kString:
      return texts->plain(id);
    case checkpoint::PickleKind::kFloat:
      if (std::isfinite(node.real)) return node.real;
      break;
    default:
      break;
  }
  return texts->describe(id);
}

void add_args(const checkpoint::CheckpointSummary& summary, bool values, ordered_json& answer) {
  answer["args_count"] = 0;
  if (!summary.args.has_value()) return;
  const auto [index, args] = *summary.args;
  const checkpoint::PickleGraph& graph = summary.files[static_cast<size_t>(index)].file->graph();
  const std::span<const checkpoint::PickleId> pairs =
      graph.pairs(graph.attributes(args).value_or(args));
  answer["args_count"] = pairs.size() / 2;
  if (!values) return;
  std::map<std::string, checkpoint::PickleId> by_name;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    by_name[checkpoint::key_text(graph, pairs[i])] = pairs[i + 1];
  }
  ValueTexts texts(graph, kLeastTextBudget + 4 * summary.bytes);
  answer["args"] = ordered_json::array();
  for (const auto& [name, id] : by_name) {
    answer["args"].push_back(
        {{"name", name}, {"value", value_json(graph, id, &texts)}, {"text", texts.describe(id)}});
  }
}

/// Code that any of the files names.
void add_code(const checkpoint::CheckpointSummary& summary, ordered_json& answer) {
  std::map<std::pair<bool, std::string>, checkpoint::NamedCode> all;
  for (const checkpoint::FileSummary& file : summary.files) {
    if (file.file == nullptr) continue;
    for (checkpoint::NamedCode& code : checkpoint::named_code(file.file->graph())) {
      checkpoint::NamedCode& merged = all[{code.is_usual, code.name}];
      const int64_t calls = merged.calls + code.calls;
      if (merged.first_call.empty()) merged = std::move(code);
      merged.calls = calls;
    }
  }
  answer["code"] = ordered_json::array();
  for (const auto& [key, code] : all) {
    answer["code"].push_back({{"name", code.name},
                              {"usual", code.is_usual},
                              {"calls", code.calls},
                              {"first_call", code.first_call}});
  }
}

void add_tree(const checkpoint::CheckpointSummary& summary, ordered_json& answer) {
  if (summary.folder.format != checkpoint::CheckpointFormat::kSingleFile || summary.files.empty())
    return;
  const checkpoint::Outline outline = checkpoint::outline_of(*summary.files[0].file);
  answer["tree"] = ordered_json::array();
  for (const checkpoint::OutlineLine& line : outline.lines) {
    answer["tree"].push_back({{"depth", line.depth}, {"key", line.key}, {"text", line.text}});
  }
  answer["tree_cut"] = outline.is_cut;
}

ordered_json tensor_json(const checkpoint::FileSummary& file, size_t index) {
  const checkpoint::NamedTensor& tensor = file.contents.tensors[index];
  ordered_json object = {{"file", file.path},
                         {"name", tensor.name},
                         {"group", checkpoint::tensor_group_text(file.groups[index])},
                         {"dtype", tensor.dtype},
                         {"shape", tensor.shape},
                         {"elements", tensor.elements},
                         {"bytes", tensor.bytes}};
  if (tensor.view == nullptr) {
    object["storage"] = nullptr;
    return object;
  }
  object["storage"] = file.file->storages()[static_cast<size_t>(tensor.view->storage)].key;
  object["offset"] = tensor.view->offset;
  object["strides"] = tensor.view->strides;
  object["contiguous"] = tensor.view->is_contiguous();
  return object;
}

void add_tensors(const checkpoint::CheckpointSummary& summary, const AnswerParts& parts,
                 ordered_json& answer) {
  answer["tensors"] = ordered_json::array();
  for (const checkpoint::FileSummary& file : summary.files) {
    for (size_t i = 0; i < file.contents.tensors.size(); ++i) {
      if (parts.wanted && !parts.wanted(file.contents.tensors[i].name)) continue;
      answer["tensors"].push_back(tensor_json(file, i));
    }
  }
}

std::string_view partition_text(model::Partition partition, bool gated) {
  switch (partition) {
    case model::Partition::kReplicated:
      return "replicated";
    case model::Partition::kRows:
      return "rows";
    case model::Partition::kColumns:
      return "columns";
    case model::Partition::kVocabulary:
      return "vocabulary";
    case model::Partition::kQkv:
      return "qkv";
    case model::Partition::kGated:
      return gated ? "gated" : "rows";
  }
  return "";
}

ordered_json placement_json(const checkpoint::LogicalParameter& parameter,
                            const checkpoint::MegatronCheckpoint& whole) {
  const Result<std::vector<int64_t>> shard =
      model::shard_shape(parameter.partition, parameter.shape, whole.tensor_model_parallel_size());
  ordered_json kinds = ordered_json::array();
  int64_t bytes = 0;
  for (const checkpoint::LogicalTensor& tensor : parameter.tensors) {
    kinds.push_back({{"kind", tensor.kind}, {"dtype", dtype_name(tensor.dtype)}});
    for (const checkpoint::Piece& piece : tensor.pieces) bytes += piece.source->bytes();
    for (const checkpoint::Piece& copy : tensor.replicas) bytes += copy.source->bytes();
  }
  return {{"name", parameter.name},
          {"layer", or_null(parameter.layer)},
          {"shape", parameter.shape},
          {"cut", partition_text(parameter.partition, whole.config().gated_linear_unit)},
          {"shard_shape", shard.has_value() ? *shard : parameter.shape},
          {"stage", parameter.stage},
          {"chunk", parameter.chunk},
          {"tensors", std::move(kinds)},
          {"bytes", bytes}};
}

void add_placement(const checkpoint::CheckpointSummary& summary, ordered_json& answer) {
  answer["placement"] = ordered_json::array();
  if (!summary.whole.has_value()) return;
  for (const checkpoint::LogicalParameter& parameter : summary.whole->parameters()) {
    answer["placement"].push_back(placement_json(parameter, *summary.whole));
  }
  if (const checkpoint::LogicalParameter* copy = summary.whole->tied_copy()) {
    answer["placement"].push_back(placement_json(*copy, *summary.whole));
  }
}

}  // namespace

ordered_json answer_of(const checkpoint::CheckpointSummary& summary, const AnswerParts& parts) {
  ordered_json answer = json_object();
  add_layout(summary, answer);
  add_files(summary, answer);
  add_content(summary, answer);
  add_args(summary, parts.args, answer);
  add_code(summary, answer);
  add_tree(summary, answer);
  if (parts.tensors) add_tensors(summary, parts, answer);
  if (parts.placement) add_placement(summary, answer);
  return answer;
}

void add_statistics(const std::vector<checkpoint::NamedStatistics>& statistics,
                    ordered_json& answer) {
  answer["statistics"] = ordered_json::array();
  int64_t nan = 0, infinite = 0;
  for (const checkpoint::NamedStatistics& tensor : statistics) {
    const checkpoint::TensorStatistics& found = tensor.statistics;
    nan += found.nan;
    infinite += found.infinite;
    ordered_json object = {{"name", tensor.name}};
    if (tensor.file.empty()) {
      object["kind"] = tensor.kind;
      object["layer"] = or_null(tensor.layer);
      object["module"] = tensor.canonical;
    } else {
      object["file"] = tensor.file;
    }
    object["dtype"] = dtype_name(tensor.dtype);
    object["shape"] = tensor.shape;
    object["elements"] = found.elements;
    object["min"] = finite_or_null(found.min);
    object["max"] = finite_or_null(found.max);
    object["mean"] = finite_or_null(found.mean());
    object["norm"] = finite_or_null(found.norm());
    object["rms"] = finite_or_null(found.rms());
    object["zero_fraction"] = found.zero_fraction();
    object["nan"] = found.nan;
    object["infinite"] = found.infinite;
    answer["statistics"].push_back(std::move(object));
  }
  answer["nan"] = nan;
  answer["infinite"] = infinite;
}

}  // namespace meg::tools
