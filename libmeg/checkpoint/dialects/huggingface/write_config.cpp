#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/container/json/internal/json_string.h"
#include "libmeg/checkpoint/container/json/json_object.h"
#include "libmeg/checkpoint/dialects/huggingface/huggingface_config.h"
#include "libmeg/checkpoint/dialects/huggingface/internal/attention_window.h"
#include "libmeg/checkpoint/dialects/huggingface/internal/config_rows.h"
#include "libmeg/checkpoint/dialects/huggingface/internal/rotary_scaling.h"
#include "libmeg/megatron/argument_values.h"
#include "libmeg/model/gpt_extensions.h"
#include "libmeg/model/layer_lists.h"

namespace meg::checkpoint {
namespace {

using Members = std::map<std::string, std::string>;

/// Neutral keys that a written config.json states itself, or that say where the old file was.
constexpr std::string_view kOwnKeys[] = {
    "_name_or_path", "_output_attentions", "architectures", "dtype",
    "n_ctx",         "name_or_path",       "torch_dtype"};

/// Megatron's defaults of all args.
const megatron::ArgumentValues& default_args() {
  static const auto values = megatron::ArgumentValues::defaults(
      megatron::argument_rows(megatron::ArgumentFamily::kTraining));
  return values;
}

/// Whether a value is the expected one, or a list that says it for every layer.
bool means(const megatron::FieldValue& found, const megatron::FieldValue& expected) {
  if (megatron::same_field(found, expected)) return true;
  const auto* words = std::get_if<std::vector<std::string>>(&found);
  return words != nullptr && !words->empty() &&
         std::ranges::all_of(*words, [&](const std::string& word) {
           return word == megatron::field_text(expected);
         });
}

std::string object_json(const Members& members, const std::string& indent) {
  std::string text;
  for (const auto& [key, value] : members) {
    text += fmt::format("{}\n{}  {}: {}", text.empty() ? "" : ",", indent, json_string(key), value);
  }
  return "{" + text + "\n" + indent + "}";
}

struct ValueJson {
  std::string operator()(std::monostate) const { return "null"; }

  std::string operator()(bool value) const { return value ? "true" : "false"; }

  std::string operator()(int64_t value) const { return std::to_string(value); }

  std::string operator()(double value) const { return json_real(value); }

  std::string operator()(const std::string& value) const { return json_string(value); }

  std::string operator()(const std::vector<std::string>&) const { return "[]"; }
};

class ConfigWriter {
 public:
  ConfigWriter(const model::GptConfig& config, const megatron::FieldLookup& args)
      : config_(config), args_(args) {}

  Result<HuggingFaceConfigText> write(DType dtype, const KeptKeys& kept) {
    MEG_ASSIGN_OR_RETURN(window_, AttentionWindow::from_fields(args_, config_.num_layers));
    const auto type = kept.find("model_type");
    MEG_ASSIGN_OR_RETURN(architecture_,
                         choose_architecture(type == kept.end() ? "" : type->second));
    for (const FixedKey& fixed : fixed_keys()) {
      if (fixed.is_of_class && is_mine(fixed.architectures)) add(fixed.key, fixed.value);
    }
    for (const ConfigRow& row : config_rows()) {
      if (is_mine(row.architectures)) MEG_RETURN_IF_ERROR(add_row(row));
    }
    keys_ = keys_of(architecture_.bit);
    MEG_RETURN_IF_ERROR(add_family_keys());
    if (!is_mine(kGpt2)) MEG_RETURN_IF_ERROR(add_rotary());
    if (is_mine(kExpertArchitectures)) MEG_RETURN_IF_ERROR(add_experts());
    add("tie_word_embeddings", !config_.untie_embeddings_and_output_weights);
    add("model_type", std::string(architecture_.model_type));
    members_["architectures"] =
        fmt::format("[\n    {}\n  ]", json_string(architecture_.class_name));
    // transformers 5's key and 4's.
    for (const char* key : {"dtype", "torch_dtype"}) add(key, std::string(dtype_name(dtype)));
    members_.merge(window_keys(architecture_.bit, window_, config_.num_layers));
    for (const auto& [key, value] : kept) members_.emplace(key, value);
    return HuggingFaceConfigText{
        .architecture = architecture_,
        .json = object_json(members_, "") + "\n",
        .adds_one_to_norms = has_zero_centered_norms() && !is_mine(kGemmas)};
  }

 private:
  bool is_mine(ArchitectureSet set) const { return (set & architecture_.bit) != 0; }

  void add(std::string_view key, const megatron::FieldValue& value) {
    members_[std::string(key)] = std::visit(ValueJson(), value);
  }

  bool is_on(std::string_view name, bool otherwise) const {
    return megatron::same_field(args_(name).value_or(otherwise), true);
  }

  /// --apply-layernorm-1p, by either of its names.
  bool has_zero_centered_norms() const {
    return is_on("apply_layernorm_1p", false) || is_on("layernorm_zero_centered_gamma", false);
  }

  /// GELU by tanh instead of erf; the fusion with the bias has that one.
  bool is_gelu_by_tanh() const {
    return (config_.add_bias_linear && is_on("bias_gelu_fusion", true)) ||
           is_on("openai_gelu", false);
  }

  /// The factor of scores whose reciprocal square is Gemma's query_pre_attn_scalar.
  double softmax_scale() const {
    const megatron::FieldValue scale = field("softmax_scale");
    const auto* number = std::get_if<double>(&scale);
    return number != nullptr ? *number : 1 / std::sqrt(static_cast<double>(config_.kv_channels));
  }

  int64_t query_pre_attn_scalar() const {
    return std::llround(std::min(1 / (softmax_scale() * softmax_scale()), 1e15));
  }

  /// A field by Megatron's name: of the config where it holds it, else of args.
  megatron::FieldValue field(std::string_view name) const;
  std::vector<std::string> differences(const HuggingFaceArchitecture& architecture) const;
  Result<HuggingFaceArchitecture> choose_architecture(std::string_view preferred) const;
  Status add_row(const ConfigRow& row);
  void add_differences_of_numbers(const HuggingFaceArchitecture& architecture,
                                  std::vector<std::string>* all) const;
  Status add_family_keys();
  Status add_rotary();
  Status add_experts();

  const model::GptConfig& config_;
  const megatron::FieldLookup& args_;
  std::optional<AttentionWindow> window_;
  HuggingFaceArchitecture architecture_{};
  ArchitectureKeys keys_;
  Members members_;
};

megatron::FieldValue ConfigWriter::field(std::string_view name) const {
  const std::pair<std::string_view, megatron::FieldValue> held[] = {
      {"num_layers", config_.num_layers},
      {"hidden_size", config_.hidden_size},
      {"num_attention_heads", config_.num_attention_heads},
      // Mixtral has one size, that of its experts.
      {"ffn_hidden_size",
       is_mine(kMixtral) ? config_.moe_ffn_hidden_size : config_.ffn_hidden_size},
      {"moe_ffn_hidden_size", config_.moe_ffn_hidden_size},
      {"num_query_groups", config_.num_query_groups},
      {"kv_channels", config_.kv_channels},
      {"max_position_embeddings", config_.max_position_embeddings},
      {"vocab_size", config_.padded_vocab_size},
      {"position_embedding_type", config_.position_embedding_type},
      {"normalization", config_.normalization},
      {"swiglu", config_.swiglu},
      {"gated_linear_unit", config_.gated_linear_unit && !config_.swiglu},
      {"add_bias_linear", config_.add_bias_linear},
      {"add_qkv_bias", config_.add_qkv_bias && !config_.add_bias_linear},
      {"qk_layernorm", config_.qk_layernorm},
      {"qk_layernorm_across_heads", config_.qk_layernorm_across_heads},
      {"pre_layernorm", config_.pre_layernorm},
      {"post_layernorm", config_.post_layernorm},
      {"apply_layernorm_1p", has_zero_centered_norms()},
      {"layernorm_zero_centered_gamma", has_zero_centered_norms()}};
  for (const auto& [held_name, value] : held) {
    if (held_name == name) return value;
  }
  const auto found = args_(name).value_or(megatron::FieldValue());
  // Before core it had another name.
  if (name == "norm_epsilon" && found == megatron::FieldValue()) {
    return args_("layernorm_epsilon").value_or(1e-5);
  }
  if (found != megatron::FieldValue()) return found;
  for (const model::ExtensionField& field : model::extension_fields()) {
    if (field.name == name) return field.otherwise;
  }
  return found;
}

/// The fields in which the model is not of this architecture, each as an error says it.
std::vector<std::string> ConfigWriter::differences(
    const HuggingFaceArchitecture& architecture) const {
  std::vector<std::string> all;
  for (const DecidedField& decided : decided_fields()) {
    if (!is_decided_for(decided, architecture.bit)) continue;
    // Norms are written as others store them, if they are to be.
    const bool is_zero_centered =
        decided.field == "apply_layernorm_1p" || decided.field == "layernorm_zero_centered_gamma";
    if (is_zero_centered && (architecture.bit & kGemmas) == 0) continue;
    const bool has_value = (decided.architectures & architecture.bit) != 0;
    const megatron::FieldValue& expected = has_value ? decided.value : decided.otherwise;
    megatron::FieldValue found = field(decided.field);
    if (found == megatron::FieldValue()) found = decided.otherwise;
    if (!means(found, expected)) {
      all.push_back(fmt::format("{}: expected {} for {}, found {}", decided.field,
                                megatron::field_text(expected), architecture.class_name,
                                megatron::field_text(found)));
    }
  }
  if (!has_window(architecture.bit, window_)) {
    const bool is_uniform = window_->layers.empty();
    all.push_back(fmt::format(
        "{}: expected None for {}, found {}", is_uniform ? "window_size" : "window_attn_skip_freq",
        architecture.class_name, is_uniform ? "a window" : "a window in some layers"));
  }
  add_differences_of_numbers(architecture, &all);
  const megatron::FieldValue experts = field("num_experts");
  const bool has_experts = (architecture.bit & kExpertArchitectures) != 0;
  if (has_experts != (experts != megatron::FieldValue())) {
    all.push_back(fmt::format("num_experts: expected {} for {}, found {}",
                              has_experts ? "them" : "None", architecture.class_name,
                              megatron::field_text(experts)));
  }
  return all;
}

/// What follows from sizes, or is limited by the class's own rules.
void ConfigWriter::add_differences_of_numbers(const HuggingFaceArchitecture& architecture,
                                              std::vector<std::string>* all) const {
  const ArchitectureSet bit = architecture.bit;
  const auto expect = [&](std::string_view name, const megatron::FieldValue& expected,
                          const megatron::FieldValue& found) {
    if (megatron::same_field(expected, found)) return;
    all->push_back(fmt::format("{}: expected {} for {}, found {}", name,
                               megatron::field_text(expected), architecture.class_name,
                               megatron::field_text(found)));
  };
  const int64_t heads = config_.num_attention_heads;
  if ((bit & (kGpt2 | kGptNeox)) != 0) expect("num_query_groups", heads, config_.num_query_groups);
  if ((bit & kDerivedHeadSize) != 0) {
    expect("kv_channels", config_.hidden_size / heads, config_.kv_channels);
  }
  if ((bit & (kDerivedHeadSize | kGemma2 | kGemma3)) != 0 && config_.hidden_size % heads != 0) {
    expect("hidden_size", config_.hidden_size / heads * heads, config_.hidden_size);
  }
  if (bit == kPhi3) {
    expect("use_rope_scaling", false, field("use_rope_scaling"));
    const megatron::FieldValue factor = field("rotary_seq_len_interpolation_factor");
    if (factor != megatron::FieldValue()) {
      expect("rotary_seq_len_interpolation_factor", int64_t{1}, factor);
    }
  }
  if ((bit & kGemmas) == 0) return;
  if (!is_gelu_by_tanh()) expect("openai_gelu", true, false);
  expect("embedding_multiplier", std::sqrt(static_cast<double>(config_.hidden_size)),
         field("embedding_multiplier"));
  const double scale = 1 / std::sqrt(static_cast<double>(query_pre_attn_scalar()));
  if (bit != kGemma && !(std::abs(scale - softmax_scale()) <= 1e-12 * scale)) {
    expect("softmax_scale", scale, softmax_scale());
  }
}

/// preferred: the JSON text of the model_type to take if several classes compute this model. The
/// error names what hinders the architecture that the model differs from in the fewest fields.
Result<HuggingFaceArchitecture> ConfigWriter::choose_architecture(
    std::string_view preferred) const {
  std::optional<HuggingFaceArchitecture> first;
  std::vector<std::string> fewest;
  for (const HuggingFaceArchitecture& architecture : hugging_face_architectures()) {
    std::vector<std::string> found = differences(architecture);
    if (found.empty()) {
      if (json_string(architecture.model_type) == preferred) return architecture;
      if (!first.has_value()) first = architecture;
    }
    if (fewest.empty() || found.size() < fewest.size()) fewest = std::move(found);
  }
  if (first.has_value()) return *first;
  return make_error(StatusCode::kUnsupported, "Hugging Face: args: {}", fmt::join(fewest, "; "));
}

Status ConfigWriter::add_row(const ConfigRow& row) {
  megatron::FieldValue value = field(row.field);
  const bool is_real = row.is_real;
  if (is_real && value == megatron::FieldValue()) {
    value = default_args().field(row.field).value_or(megatron::FieldValue());
  }
  if (row.field == "softmax_scale") value = softmax_scale();
  const KeyDefault* key = default_of(architecture_.bit, row.key);
  if (is_real && value == megatron::FieldValue() && key != nullptr && key->takes_null) {
    add(row.key, value);
    return Status();
  }
  // A list of one number, as newer revisions have of --moe-aux-loss-coeff.
  if (const auto* words = std::get_if<std::vector<std::string>>(&value);
      is_real && words != nullptr && words->size() == 1) {
    char* end = nullptr;
    const double number = std::strtod(words->front().c_str(), &end);
    if (*end == 0) value = number;
  }
  // Command lines may give a real number as `0`.
  if (const auto* whole = std::get_if<int64_t>(&value); is_real && whole != nullptr) {
    value = static_cast<double>(*whole);
  }
  const auto* real = std::get_if<double>(&value);
  if (is_real ? real == nullptr || !std::isfinite(*real)
              : !std::holds_alternative<int64_t>(value)) {
    return make_error(StatusCode::kUnsupported,
                      "Hugging Face: args: {}: expected a number, found {}", row.field,
                      megatron::field_text(value));
  }
  add(row.key, value);
  // transformers 4's name and 5's.
  if (is_mine(kQwenExpertArchitectures) && !row.other_key.empty()) add(row.other_key, value);
  return Status();
}

/// The keys that a few classes have.
Status ConfigWriter::add_family_keys() {
  if (!keys_.activation.empty()) {
    const std::string by_tanh = is_mine(kGpt2) ? "gelu_new" : "gelu_pytorch_tanh";
    add(keys_.activation, is_gelu_by_tanh() ? by_tanh : "gelu");
  }
  if (!keys_.bias.empty()) add(keys_.bias, config_.add_bias_linear);
  // Megatron has one hidden_dropout for both.
  if (!keys_.embedding_dropout.empty()) {
    members_[std::string(keys_.embedding_dropout)] = members_[std::string(keys_.dropout)];
  }
  if (is_mine(kGptNeox)) add("use_parallel_residual", is_on("parallel_residual", false));
  if (is_mine(kGemma2 | kGemma3)) add("query_pre_attn_scalar", query_pre_attn_scalar());
  if (!is_mine(kSmolLm3)) return Status();
  MEG_ASSIGN_OR_RETURN(std::vector<bool> layers,
                       model::layers_without_rope(args_, config_.num_layers));
  layers.resize(static_cast<size_t>(config_.num_layers), false);
  std::string list;
  for (const bool is_without : layers) {
    list += fmt::format("{}{}", list.empty() ? "" : ", ", is_without ? 0 : 1);
  }
  members_["no_rope_layers"] = "[" + list + "]";
  return Status();
}

Status ConfigWriter::add_rotary() {
  Result<RotaryScaling> scaling = RotaryScaling::from_fields(args_);
  if (!scaling.has_value()) return scaling.error().with_prefix("Hugging Face: args");
  Members parameters = scaling->parameters();
  const std::string whole = object_json(parameters, "  ");
  members_["rope_parameters"] = whole;
  if (is_mine(kLayeredRotary)) {
    RotaryScaling local = *scaling;
    if (scaling->local_base.has_value()) {
      local = RotaryScaling();
      local.base = *scaling->local_base;
    }
    if (is_mine(kGemma3)) members_["rope_local_base_freq"] = json_real(local.base);
    members_["rope_parameters"] =
        object_json({{"full_attention", object_json(parameters, "    ")},
                     {"sliding_attention", object_json(local.parameters(), "    ")}},
                    "  ");
  }
  // Write both spellings: transformers 5 reads rope_parameters, 4 the other two keys.
  members_[std::string(keys_.rotary_base)] = parameters["rope_theta"];
  members_.erase("partial_rotary_factor");
  if (!keys_.rotary_share.empty()) {
    members_[std::string(keys_.rotary_share)] = json_real(scaling->share);
    parameters.erase("partial_rotary_factor");
  }
  parameters.erase("rope_theta");
  // Nothing but the rope_type `default`.
  const bool is_plain = parameters.size() == 1;
  members_["rope_scaling"] = is_plain ? "null" : object_json(parameters, "  ");
  return Status();
}

/// How the router weighs the experts that it chose.
Status ConfigWriter::add_experts() {
  const bool is_normalized =
      !megatron::same_field(args_("moe_router_pre_softmax").value_or(false), true);
  if (is_mine(kQwenExpertArchitectures)) {
    add("norm_topk_prob", is_normalized);
    members_["mlp_only_layers"] = "[]";
    return Status();
  }
  if (is_normalized) return Status();
  return make_error(StatusCode::kUnsupported,
                    "Hugging Face: args: moe_router_pre_softmax: expected False for {}, found True",
                    architecture_.class_name);
}

}  // namespace

Result<HuggingFaceConfigText> write_huggingface_config(const model::GptConfig& config,
                                                       const megatron::FieldLookup& args,
                                                       DType dtype, const KeptKeys& kept) {
  return ConfigWriter(config, args).write(dtype, kept);
}

Result<KeptKeys> kept_keys(std::string_view json, const std::string& name) {
  simdjson::dom::parser parser;
  MEG_ASSIGN_OR_RETURN(const simdjson::dom::object root, parse_json_object(&parser, json, name));
  KeptKeys kept;
  MEG_RETURN_IF_ERROR(for_each_member(
      root, name, [&kept](std::string_view key, const simdjson::dom::element& value) {
        const bool is_own = std::ranges::find(kOwnKeys, key) != std::end(kOwnKeys);
        if (!is_own && is_neutral_key(key)) kept.emplace(key, simdjson::minify(value));
        return Status();
      }));
  return kept;
}

}  // namespace meg::checkpoint
