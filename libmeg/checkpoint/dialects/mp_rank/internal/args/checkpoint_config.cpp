#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_config.h"

#include <algorithm>
#include <string_view>

#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/model/shard_axes.h"

namespace meg::checkpoint {
namespace {

constexpr std::string_view kFirstMlpMatrix = "decoder.layers.{}.mlp.linear_fc1.weight";

/// Args with which parameters of known names have other rows, or layers are not alike.
constexpr const char* kOtherRows[] = {"attention_output_gate", "heterogeneous_layers_config_path",
                                      "heterogeneous_layers_config_encoded_json",
                                      "moe_mlp_glu_interleave_size",
                                      "moe_shared_expert_glu_interleave_size"};

}  // namespace

Result<model::GptConfig> read_checkpoint_config(const TorchFile& file,
                                                const megatron::FieldLookup& fallback) {
  const PickleGraph& graph = file.graph();
  const std::optional<PickleId> args = graph.find(file.root(), "args");
  MEG_ASSIGN_OR_RETURN(const auto hybrid, hybrid_pattern(graph, args));
  Result<model::GptConfig> config = model::GptConfig::from_fields(
      [&](std::string_view name) -> std::optional<megatron::FieldValue> {
        // The pattern's number of layers counts attention and MLP apart.
        if (hybrid.has_value()) {
          if (auto field = gpt_field(*hybrid, name)) return field;
        }
        if (args.has_value()) {
          const std::optional<PickleId> id = find_arg(graph, *args, name);
          if (id.has_value()) return config_field(graph, *id, name);
        }
        return fallback ? fallback(name) : std::nullopt;
      });
  const bool has_experts = hybrid.has_value() && hybrid->has_experts();
  if (config.has_value() && has_experts && !config->num_experts.has_value()) {
    return Status(StatusCode::kCorruption,
                  "args: hybrid_layer_pattern: experts (E) need num_experts, found none");
  }
  return config;
}

Status check_rows_of_args(const TorchFile& file) {
  const std::optional<PickleId> args = file.graph().find(file.root(), "args");
  for (const char* name : kOtherRows) {
    const auto id = args.has_value() ? find_arg(file.graph(), *args, name) : std::nullopt;
    const megatron::FieldValue value =
        id.has_value() ? arg_field(file.graph(), *id) : megatron::FieldValue();
    if (value == megatron::FieldValue() || value == megatron::FieldValue(false)) continue;
    return make_error(StatusCode::kUnsupported, "{}: args: {} {} is not supported", file.path(),
                      name, megatron::field_text(value));
  }
  return Status();
}

void infer_gated_linear_unit(const std::vector<RankEntry>& chunk, int64_t tensor_size,
                             model::GptConfig* config) {
  const auto matrix = std::find_if(chunk.begin(), chunk.end(), [](const RankEntry& entry) {
    return entry.match.canonical == kFirstMlpMatrix && entry.tensor != nullptr;
  });
  if (matrix == chunk.end() || matrix->tensor->shape.empty()) return;
  const int64_t rows = matrix->tensor->shape[0];
  const int64_t ffn = config->ffn_hidden_size;
  // Rows of gate and up projection together.
  if (ffn % tensor_size == 0 && rows == 2 * (ffn / tensor_size)) config->gated_linear_unit = true;
}

RankShapes::RankShapes(const model::GptConfig& config, int64_t tensor_size, bool with_tied_copy)
    : tensor_size_(tensor_size), has_positions_(config.max_position_embeddings > 0) {
  model::GptConfig known = config;
  // Where these are not known their parameters' first dimension is not compared.
  known.padded_vocab_size = std::max<int64_t>(known.padded_vocab_size, 1);
  known.max_position_embeddings = std::max<int64_t>(known.max_position_embeddings, 1);
  Result<std::vector<model::ModelParameter>> parameters =
      model::model_parameters(known, with_tied_copy);
  if (parameters.has_value()) parameters_ = *std::move(parameters);
}

std::optional<std::vector<int64_t>> RankShapes::expected(const model::ParameterMatch& match,
                                                         const std::vector<int64_t>& found) const {
  const auto parameter = std::find_if(
      parameters_.begin(), parameters_.end(),
      [&](const model::ModelParameter& known) { return known.canonical == match.canonical; });
  if (parameter == parameters_.end() || match.partition != parameter->partition) {
    return std::nullopt;
  }
  const Result<std::vector<int64_t>> shape =
      model::shard_shape(parameter->partition, parameter->shape, tensor_size_);
  std::vector<int64_t> expected = shape.has_value() ? *shape : parameter->shape;
  const bool is_told = parameter->placement != model::Placement::kEmbedding || has_positions_;
  const bool is_table = parameter->partition == model::Partition::kVocabulary;
  // Sizes that flags may leave open (padded vocabulary, positions) are taken from the tensor.
  if (!found.empty() && (is_table || !is_told)) expected[0] = found[0];
  return expected;
}

}  // namespace meg::checkpoint
