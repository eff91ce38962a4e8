#include "libmeg/model/hugging_face_names.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "libmeg/model/expert_names.h"

// Megatron merges what Hugging Face keeps apart: linear_qkv holds, query group after query group,
// the group's query heads, its key and its value; linear_fc1 of a gated MLP holds the gate's rows,
// then those of what is gated. Each row of the table says which part of such a parameter a tensor
// is; boxes_of() says it as boxes of axes, so that the same copying serves reading and writing.

namespace meg::model {
namespace {

using Family = HuggingFaceFamily;

/// What of a merged parameter of Megatron's a Hugging Face tensor holds.
enum class Part : uint8_t {
  kWhole,
  kQuery,  ///< The query rows of all groups of linear_qkv.
  kKey,
  kValue,
  kStackedQkv,  ///< All query rows, all key rows, all value rows.
  kGate,        ///< The upper half of linear_fc1.
  kUp,
};

/// One spelling of a module, or of a part of one. The parameters of a module whose rows are several
/// are made of all of them.
struct Row {
  Family family;
  std::string_view canonical_stem;  ///< ModuleRow::canonical_stem(), of experts without number.
  std::string_view stem;            ///< What stands before "weight" or "bias"; [] for the expert.
  Part part = Part::kWhole;
  bool is_conv1d = false;  ///< Weights stand as [input, output].
};

constexpr Row kRows[] = {
    {Family::kGpt2, "embedding.word_embeddings.", "transformer.wte."},
    {Family::kGpt2, "embedding.position_embeddings.", "transformer.wpe."},
    {Family::kGpt2, "decoder.layers.{}.input_layernorm.", "transformer.h.{}.ln_1."},
    {Family::kGpt2, "decoder.layers.{}.self_attention.linear_qkv.", "transformer.h.{}.attn.c_attn.",
     Part::kStackedQkv, true},
    {Family::kGpt2, "decoder.layers.{}.self_attention.linear_proj.",
     "transformer.h.{}.attn.c_proj.", Part::kWhole, true},
    {Family::kGpt2, "decoder.layers.{}.pre_mlp_layernorm.", "transformer.h.{}.ln_2."},
    {Family::kGpt2, "decoder.layers.{}.mlp.linear_fc1.", "transformer.h.{}.mlp.c_fc.", Part::kWhole,
     true},
    {Family::kGpt2, "decoder.layers.{}.mlp.linear_fc2.", "transformer.h.{}.mlp.c_proj.",
     Part::kWhole, true},
    {Family::kGpt2, "decoder.final_layernorm.", "transformer.ln_f."},
    {Family::kGpt2, "output_layer.", "lm_head."},

    {Family::kGptNeox, "embedding.word_embeddings.", "gpt_neox.embed_in."},
    {Family::kGptNeox, "decoder.layers.{}.input_layernorm.", "gpt_neox.layers.{}.input_layernorm."},
    {Family::kGptNeox, "decoder.layers.{}.self_attention.linear_qkv.",
     "gpt_neox.layers.{}.attention.query_key_value."},
    {Family::kGptNeox, "decoder.layers.{}.self_attention.linear_proj.",
     "gpt_neox.layers.{}.attention.dense."},
    {Family::kGptNeox, "decoder.layers.{}.pre_mlp_layernorm.",
     "gpt_neox.layers.{}.post_attention_layernorm."},
    {Family::kGptNeox, "decoder.layers.{}.mlp.linear_fc1.",
     "gpt_neox.layers.{}.mlp.dense_h_to_4h."},
    {Family::kGptNeox, "decoder.layers.{}.mlp.linear_fc2.",
     "gpt_neox.layers.{}.mlp.dense_4h_to_h."},
    {Family::kGptNeox, "decoder.final_layernorm.", "gpt_neox.final_layer_norm."},
    {Family::kGptNeox, "output_layer.", "embed_out."},

    {Family::kFalcon, "embedding.word_embeddings.", "transformer.word_embeddings."},
    {Family::kFalcon, "decoder.layers.{}.input_layernorm.", "transformer.h.{}.ln_attn."},
    {Family::kFalcon, "decoder.layers.{}.self_attention.linear_qkv.",
     "transformer.h.{}.self_attention.query_key_value."},
    {Family::kFalcon, "decoder.layers.{}.self_attention.linear_proj.",
     "transformer.h.{}.self_attention.dense."},
    {Family::kFalcon, "decoder.layers.{}.pre_mlp_layernorm.", "transformer.h.{}.ln_mlp."},
    {Family::kFalcon, "decoder.layers.{}.mlp.linear_fc1.", "transformer.h.{}.mlp.dense_h_to_4h."},
    {Family::kFalcon, "decoder.layers.{}.mlp.linear_fc2.", "transformer.h.{}.mlp.dense_4h_to_h."},
    {Family::kFalcon, "decoder.final_layernorm.", "transformer.ln_f."},
    {Family::kFalcon, "output_layer.", "lm_head."},

    {Family::kLlama, "embedding.word_embeddings.", "model.embed_tokens."},
    {Family::kLlama, "decoder.layers.{}.input_layernorm.", "model.layers.{}.input_layernorm."},
    {Family::kLlama, "decoder.layers.{}.self_attention.linear_qkv.",
     "model.layers.{}.self_attn.q_proj.", Part::kQuery},
    {Family::kLlama, "decoder.layers.{}.self_attention.linear_qkv.",
     "model.layers.{}.self_attn.k_proj.", Part::kKey},
    {Family::kLlama, "decoder.layers.{}.self_attention.linear_qkv.",
     "model.layers.{}.self_attn.v_proj.", Part::kValue},
    {Family::kLlama, "decoder.layers.{}.self_attention.q_layernorm.",
     "model.layers.{}.self_attn.q_norm."},
    {Family::kLlama, "decoder.layers.{}.self_attention.k_layernorm.",
     "model.layers.{}.self_attn.k_norm."},
    {Family::kLlama, "decoder.layers.{}.self_attention.linear_proj.",
     "model.layers.{}.self_attn.o_proj."},
    {Family::kLlama, "decoder.layers.{}.pre_mlp_layernorm.",
     "model.layers.{}.post_attention_layernorm."},
    {Family::kLlama, "decoder.layers.{}.mlp.linear_fc1.", "model.layers.{}.mlp.gate_proj.",
     Part::kGate},
    {Family::kLlama, "decoder.layers.{}.mlp.linear_fc1.", "model.layers.{}.mlp.up_proj.",
     Part::kUp},
    {Family::kLlama, "decoder.layers.{}.mlp.linear_fc2.", "model.layers.{}.mlp.down_proj."},
    {Family::kLlama, "decoder.final_layernorm.", "model.norm."},
    {Family::kLlama, "output_layer.", "lm_head."},

    {Family::kStarcoder2, "decoder.layers.{}.mlp.linear_fc1.", "model.layers.{}.mlp.c_fc."},
    {Family::kStarcoder2, "decoder.layers.{}.mlp.linear_fc2.", "model.layers.{}.mlp.c_proj."},

    {Family::kPhi3, "decoder.layers.{}.self_attention.linear_qkv.",
     "model.layers.{}.self_attn.qkv_proj.", Part::kStackedQkv},
    {Family::kPhi3, "decoder.layers.{}.mlp.linear_fc1.", "model.layers.{}.mlp.gate_up_proj."},

    {Family::kPostNorm, "decoder.layers.{}.self_attention.linear_proj.post_layernorm.",
     "model.layers.{}.post_attention_layernorm."},
    {Family::kPostNorm, "decoder.layers.{}.pre_mlp_layernorm.",
     "model.layers.{}.pre_feedforward_layernorm."},
    {Family::kPostNorm, "decoder.layers.{}.mlp.linear_fc2.post_layernorm.",
     "model.layers.{}.post_feedforward_layernorm."},

    {Family::kMixtral, "decoder.layers.{}.mlp.router.", "model.layers.{}.block_sparse_moe.gate."},
    {Family::kMixtral, "decoder.layers.{}.mlp.experts.linear_fc1.",
     "model.layers.{}.block_sparse_moe.experts.[].w1.", Part::kGate},
    {Family::kMixtral, "decoder.layers.{}.mlp.experts.linear_fc1.",
     "model.layers.{}.block_sparse_moe.experts.[].w3.", Part::kUp},
    {Family::kMixtral, "decoder.layers.{}.mlp.experts.linear_fc2.",
     "model.layers.{}.block_sparse_moe.experts.[].w2."},

    {Family::kQwenMoe, "decoder.layers.{}.mlp.router.", "model.layers.{}.mlp.gate."},
    {Family::kQwenMoe, "decoder.layers.{}.mlp.experts.linear_fc1.",
     "model.layers.{}.mlp.experts.[].gate_proj.", Part::kGate},
    {Family::kQwenMoe, "decoder.layers.{}.mlp.experts.linear_fc1.",
     "model.layers.{}.mlp.experts.[].up_proj.", Part::kUp},
    {Family::kQwenMoe, "decoder.layers.{}.mlp.experts.linear_fc2.",
     "model.layers.{}.mlp.experts.[].down_proj."},
    {Family::kQwenMoe, "decoder.layers.{}.mlp.shared_experts.gate_",
     "model.layers.{}.mlp.shared_expert_gate."},
    {Family::kQwenMoe, "decoder.layers.{}.mlp.shared_experts.linear_fc1.",
     "model.layers.{}.mlp.shared_expert.gate_proj.", Part::kGate},
    {Family::kQwenMoe, "decoder.layers.{}.mlp.shared_experts.linear_fc1.",
     "model.layers.{}.mlp.shared_expert.up_proj.", Part::kUp},
    {Family::kQwenMoe, "decoder.layers.{}.mlp.shared_experts.linear_fc2.",
     "model.layers.{}.mlp.shared_expert.down_proj."},
};

/// Marks in a stem where an expert's number stands.
constexpr std::string_view kExpertNumber = "[]";

/// Whether a family spells what it has no rows for as Llama does.
bool extends_llama(Family family) {
  return family != Family::kGpt2 && family != Family::kGptNeox && family != Family::kFalcon;
}

/// The rows for a parameter by row_name(): the family's own, or Llama's if it extends them.
std::vector<Row> rows_of(Family family, std::string_view name) {
  std::vector<Row> rows;
  const auto add = [&](Family of) {
    for (const Row& row : kRows) {
      // What follows the stem is `weight` or `bias`: a module inside this one has rows of its own.
      const bool is_named = row.family == of && name.starts_with(row.canonical_stem) &&
                            name.find('.', row.canonical_stem.size()) == name.npos;
      if (is_named) rows.push_back(row);
    }
  };
  add(family);
  if (rows.empty() && extends_llama(family)) add(Family::kLlama);
  return rows;
}

/// A canonical name as rows begin: of an expert without its number.
std::string row_name(const std::string& canonical) {
  const std::optional<ExpertName> expert = parse_expert_name(canonical);
  if (!expert.has_value()) return canonical;
  return std::string(expert->layer_name) + std::string(expert->parameter);
}

/// Sets the axes of a merged parameter, `rows` in place of its first dimension, and what a part
/// holds of them.
void set_boxes(Part part, const ModelParameter& parameter, const GptConfig& config,
               HuggingFaceTensor* tensor) {
  const auto set_axes = [&](std::vector<int64_t> rows) {
    tensor->axes = std::move(rows);
    tensor->axes.insert(tensor->axes.end(), parameter.shape.begin() + 1, parameter.shape.end());
  };
  const auto add_box = [tensor](size_t axis, int64_t offset, int64_t size) {
    AxesBox box{.offsets = std::vector<int64_t>(tensor->axes.size()), .sizes = tensor->axes};
    box.offsets[axis] = offset;
    box.sizes[axis] = size;
    tensor->boxes.push_back(std::move(box));
  };
  const int64_t queries = config.num_attention_heads / config.num_query_groups;
  switch (part) {
    case Part::kWhole:
      set_axes({parameter.shape[0]});
      return add_box(0, 0, parameter.shape[0]);
    case Part::kQuery:
    case Part::kKey:
    case Part::kValue:
    case Part::kStackedQkv:
      // Heads of one group: its queries, then key and value.
      set_axes({config.num_query_groups, queries + 2, config.kv_channels});
      if (part == Part::kQuery || part == Part::kStackedQkv) add_box(1, 0, queries);
      if (part == Part::kKey || part == Part::kStackedQkv) add_box(1, queries, 1);
      if (part == Part::kValue || part == Part::kStackedQkv) add_box(1, queries + 1, 1);
      return;
    case Part::kGate:
    case Part::kUp:
      set_axes({2, parameter.shape[0] / 2});
      return add_box(0, part == Part::kGate ? 0 : 1, 1);
  }
}

/// The shape of the file's tensor: the boxes' rows, and the parameter's dimensions but the first.
std::vector<int64_t> file_shape(const HuggingFaceTensor& tensor, const ModelParameter& parameter) {
  std::vector<int64_t> shape = parameter.shape;
  shape[0] = 0;
  for (const AxesBox& box : tensor.boxes) {
    int64_t rows = 1;
    for (size_t i = 0; i + shape.size() <= box.sizes.size(); ++i) rows *= box.sizes[i];
    shape[0] += rows;
  }
  if (tensor.is_transposed) std::swap(shape[0], shape[1]);
  return shape;
}

/// Adds what a row makes of a parameter in one layer.
void add_tensor(const Row& row, const ModelParameter& parameter, int64_t layer,
                const GptConfig& config, std::vector<HuggingFaceTensor>* tensors) {
  HuggingFaceTensor tensor;
  tensor.name = with_layer(
      std::string(row.stem) + row_name(parameter.canonical).substr(row.canonical_stem.size()),
      layer);
  if (const size_t at = tensor.name.find(kExpertNumber); at != tensor.name.npos) {
    const std::optional<ExpertName> expert = parse_expert_name(parameter.canonical);
    tensor.name.replace(at, kExpertNumber.size(), std::to_string(expert->expert));
  }
  tensor.parameter = with_layer(parameter.canonical, layer);
  tensor.is_transposed = row.is_conv1d && parameter.shape.size() == 2;
  set_boxes(row.part, parameter, config, &tensor);
  tensor.shape = file_shape(tensor, parameter);
  tensors->push_back(std::move(tensor));
}

Status add_parameter(Family family, const ModelParameter& parameter, int64_t layer,
                     const GptConfig& config, std::vector<HuggingFaceTensor>* tensors) {
  const std::vector<Row> rows = rows_of(family, row_name(parameter.canonical));
  for (const Row& row : rows) add_tensor(row, parameter, layer, config, tensors);
  if (!rows.empty()) return Status();
  return make_error(StatusCode::kUnsupported,
                    "{}: Hugging Face's model with {} has no such parameter", parameter.canonical,
                    hugging_face_name(family, "embedding.word_embeddings.weight"));
}

}  // namespace

std::string hugging_face_name(HuggingFaceFamily family, std::string_view canonical) {
  const std::vector<Row> rows = rows_of(family, canonical);
  if (rows.size() != 1) return "";
  return std::string(rows[0].stem) + std::string(canonical.substr(rows[0].canonical_stem.size()));
}

Result<std::vector<HuggingFaceTensor>> hugging_face_tensors(HuggingFaceFamily family,
                                                            const GptConfig& config) {
  MEG_ASSIGN_OR_RETURN(const std::vector<ModelParameter> parameters, model_parameters(config));
  std::vector<HuggingFaceTensor> tensors;
  const auto add = [&](Placement placement, int64_t layer) -> Status {
    for (const ModelParameter& parameter : parameters) {
      // Placement by placement, as all parameters of a layer come before those of the next.
      if (parameter.placement != placement || !parameter.is_in(config, layer)) continue;
      MEG_RETURN_IF_ERROR(add_parameter(family, parameter, layer, config, &tensors));
    }
    return Status();
  };
  MEG_RETURN_IF_ERROR(add(Placement::kEmbedding, 0));
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    MEG_RETURN_IF_ERROR(add(Placement::kLayer, layer));
  }
  MEG_RETURN_IF_ERROR(add(Placement::kFinal, 0));
  MEG_RETURN_IF_ERROR(add(Placement::kOutput, 0));
  return tensors;
}

}  // namespace meg::model
