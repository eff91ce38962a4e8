#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "libmeg/checkpoint/container/json/json_object.h"
#include "libmeg/checkpoint/dialects/huggingface/huggingface_config.h"
#include "libmeg/checkpoint/dialects/huggingface/internal/config_rows.h"
#include "libmeg/checkpoint/dialects/huggingface/internal/rotary_scaling.h"

namespace meg::checkpoint {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

/// Far more than any model has, and little enough that products of sizes can be counted.
constexpr int64_t kMaxSize = 1 << 24;

/// A plain value; a list of texts as its words. nullopt for other lists and objects.
std::optional<megatron::FieldValue> field_of(const element& value) {
  switch (value.type()) {
    case simdjson::dom::element_type::NULL_VALUE:
      return megatron::FieldValue();
    case simdjson::dom::element_type::BOOL:
      return megatron::FieldValue(bool{value});
    case simdjson::dom::element_type::INT64:
      return megatron::FieldValue(int64_t{value});
    case simdjson::dom::element_type::DOUBLE:
      return megatron::FieldValue(double{value});
    case simdjson::dom::element_type::STRING:
      return megatron::FieldValue(std::string(std::string_view(value)));
    default:
      return std::nullopt;
  }
}

/// Reads config.json by tables (config_rows.cpp): keys that become Megatron's fields, keys that
/// must have one value, and fields that the architecture decides. Keys that none of them knows are
/// named in a note: transformers' class ignores them too, so they change nothing of what it
/// computes.
class ConfigReader {
 public:
  ConfigReader(const object& root, const std::string& name) : root_(root), name_(name) {}

  Result<HuggingFaceConfig> read() {
    MEG_RETURN_IF_ERROR(
        // Visited only to refuse keys that come twice, of which readers take one or the other.
        for_each_member(root_, name_, [](std::string_view, const element&) { return Status(); }));
    MEG_RETURN_IF_ERROR(read_architecture());
    MEG_RETURN_IF_ERROR(check_fixed_keys());
    for (const ConfigRow& row : config_rows()) {
      if (is_mine(row.architectures)) MEG_RETURN_IF_ERROR(read_row(row));
    }
    for (const DecidedField& decided : decided_fields()) {
      if (!is_decided_for(decided, config_.architecture.bit)) continue;
      set(decided.field, is_mine(decided.architectures) ? decided.value : decided.otherwise);
    }
    MEG_RETURN_IF_ERROR(read_tied());
    MEG_RETURN_IF_ERROR(is_mine(kGpt2) ? read_activation() : read_rotary());
    MEG_RETURN_IF_ERROR(read_windows());
    if (is_mine(kExpertArchitectures)) MEG_RETURN_IF_ERROR(read_experts());
    note_other_keys();
    return std::move(config_);
  }

 private:
  bool is_mine(ArchitectureSet set) const { return (set & config_.architecture.bit) != 0; }

  std::optional<element> find(std::string_view key) {
    // Note it also where it is missing: what was requested is not "another key".
    read_keys_.push_back(key);
    element value;
    if (root_[key].get(value) != simdjson::SUCCESS) return std::nullopt;
    return value;
  }

  void set(std::string_view field, const megatron::FieldValue& value) {
    config_.fields.emplace_back(field, value);
  }

  Status unsupported(std::string_view key, std::string_view expected, const element& found) const {
    return make_error(StatusCode::kUnsupported, "{}: {}: expected {}, found {}", name_, key,
                      expected, json_value_text(found));
  }

  Status missing(std::string_view key) const {
    return make_error(StatusCode::kCorruption, "{}: expected {}, found none", name_, key);
  }

  Status read_architecture();
  Status check_class(const element& classes) const;
  Status check_fixed_keys();
  Status read_row(const ConfigRow& row);
  Status read_tied();
  Status read_activation();
  Status read_rotary();
  Status read_windows();
  Status read_experts();
  void note_other_keys();

  const object& root_;
  const std::string& name_;
  HuggingFaceConfig config_;
  std::vector<std::string_view> read_keys_;
};

Status ConfigReader::read_architecture() {
  const std::optional<element> type = find("model_type");
  if (!type.has_value()) return missing("model_type");
  std::string known;
  std::string_view found;
  if (type->get(found) != simdjson::SUCCESS) found = {};
  for (const HuggingFaceArchitecture& architecture : hugging_face_architectures()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", architecture.model_type);
    if (architecture.model_type == found) config_.architecture = architecture;
  }
  if (config_.architecture.bit == 0) return unsupported("model_type", "one of " + known, *type);
  const std::optional<element> classes = find("architectures");
  return classes.has_value() && !classes->is_null() ? check_class(*classes) : Status();
}

Status ConfigReader::check_class(const element& classes) const {
  simdjson::dom::array names;
  std::string_view first;
  if (classes.get(names) != simdjson::SUCCESS || names.size() == 0 ||
      names.at(0).get(first) != simdjson::SUCCESS) {
    return unsupported("architectures", "a list of one class", classes);
  }
  if (names.size() == 1 && first == config_.architecture.class_name) return Status();
  return unsupported("architectures", config_.architecture.class_name, names.at(0));
}

Status ConfigReader::check_fixed_keys() {
  for (const FixedKey& fixed : fixed_keys()) {
    if (!is_mine(fixed.architectures)) continue;
    const std::optional<element> found = find(fixed.key);
    if (!found.has_value() || found->is_null()) continue;
    const std::optional<megatron::FieldValue> value = field_of(*found);
    if (!value.has_value() || !megatron::same_field(*value, fixed.value)) {
      return unsupported(fixed.key, megatron::field_text(fixed.value), *found);
    }
  }
  return Status();
}

Status ConfigReader::read_row(const ConfigRow& row) {
  const std::optional<element> found = find(row.key);
  if (!found.has_value() || found->is_null()) {
    if (!row.missing.has_value()) return missing(row.key);
    // A default of None leaves the field away: Megatron then derives it from others.
    if (*row.missing != megatron::FieldValue()) set(row.field, *row.missing);
    return Status();
  }
  int64_t size = 0;
  double number = 0;
  const bool is_number = found->get(number) == simdjson::SUCCESS;
  const bool is_whole = found->get(size) == simdjson::SUCCESS;
  const bool is_real = row.missing.has_value() && std::holds_alternative<double>(*row.missing);
  if (is_real ? !is_number : (!is_whole || size < 1 || size > kMaxSize)) {
    return make_error(StatusCode::kCorruption, "{}: {}: expected {}, found {}", name_, row.key,
                      is_real ? "a number" : fmt::format("a size from 1 to {}", kMaxSize),
                      json_value_text(*found));
  }
  if (row.field == "vocab_size") {
    config_.vocab_size = size;
  } else if (is_real) {
    set(row.field, number);
  } else {
    set(row.field, size);
  }
  return Status();
}

Status ConfigReader::read_tied() {
  const std::optional<element> tied = find("tie_word_embeddings");
  bool is_tied = is_mine(kGpt2);
  if (tied.has_value() && !tied->is_null() && tied->get(is_tied) != simdjson::SUCCESS) {
    return unsupported("tie_word_embeddings", "true or false", *tied);
  }
  set("untie_embeddings_and_output_weights", !is_tied);
  return Status();
}

/// GPT-2's activation. Megatron's fusion has the tanh form of GELU.
Status ConfigReader::read_activation() {
  const std::optional<element> activation = find("activation_function");
  std::string_view name = "gelu_new";
  if (activation.has_value() && activation->get(name) != simdjson::SUCCESS) name = {};
  const bool is_tanh = name == "gelu_new" || name == "gelu_pytorch_tanh";
  if (!is_tanh && name != "gelu") {
    return unsupported("activation_function", "gelu_new, gelu_pytorch_tanh or gelu", *activation);
  }
  set("bias_gelu_fusion", is_tanh);
  return Status();
}

Status ConfigReader::read_rotary() {
  set("hidden_dropout", 0.0);
  const std::optional<element> theta = find("rope_theta");
  const std::optional<element> scaling = find("rope_scaling");
  const std::optional<element> parameters = find("rope_parameters");
  int64_t positions = 0;
  for (const auto& [field, value] : config_.fields) {
    if (field == "max_position_embeddings") positions = std::get<int64_t>(value);
  }
  MEG_ASSIGN_OR_RETURN(
      const RotaryScaling found,
      read_rotary_scaling({.theta = theta, .scaling = scaling, .parameters = parameters}, positions,
                          name_));
  found.add_fields(&config_.fields);
  return Status();
}

/// Attention to the last tokens alone, where that is less than all of them.
Status ConfigReader::read_windows() {
  if (is_mine(kQwen2 | kQwen3 | kQwenExpertArchitectures)) {
    find("sliding_window");  // of use_sliding_window
    const std::optional<element> types = find("layer_types");
    simdjson::dom::array layers;
    if (!types.has_value() || types->get(layers) != simdjson::SUCCESS) return Status();
    for (const element layer : layers) {
      std::string_view type;
      if (layer.get(type) != simdjson::SUCCESS || type != "full_attention") {
        return unsupported("layer_types", "full_attention", layer);
      }
    }
  }
  if (!is_mine(kMistral | kMixtral)) return Status();
  // transformers' default for Mistral where the key is missing, which is not the same as null: a
  // window that is shorter than the context changes attention.
  constexpr int64_t kDefaultWindow = 4096;
  const std::optional<element> window = find("sliding_window");
  if (window.has_value() ? window->is_null() : is_mine(kMixtral)) return Status();
  int64_t tokens = kDefaultWindow;
  if (window.has_value() && window->get(tokens) != simdjson::SUCCESS) tokens = 0;
  const auto positions = std::get<int64_t>(*config_.field("max_position_embeddings"));
  if (tokens >= positions) return Status();
  return make_error(StatusCode::kUnsupported,
                    "{}: sliding_window: expected null, or at least max_position_embeddings {}, "
                    "found {}",
                    name_, positions,
                    window.has_value() ? json_value_text(*window) : "none, which means 4096");
}

/// Every layer has them; Mixtral's router gives the chosen ones probabilities that add up to 1,
/// Qwen's those among all experts unless it says so.
Status ConfigReader::read_experts() {
  std::optional<megatron::FieldValue> experts;
  for (const auto& [field, value] : config_.fields) {
    if (field != "num_experts") continue;
    if (experts.has_value() && *experts != value) {
      return make_error(StatusCode::kCorruption,
                        "{}: num_local_experts: expected {} as in num_experts, found {}", name_,
                        megatron::field_text(*experts), megatron::field_text(value));
    }
    experts = value;
  }
  if (!experts.has_value()) return missing("num_experts");
  bool is_normalized = is_mine(kMixtral);
  if (is_mine(kQwenExpertArchitectures)) {
    const std::optional<element> normalized = find("norm_topk_prob");
    if (normalized.has_value() && normalized->get(is_normalized) != simdjson::SUCCESS) {
      return unsupported("norm_topk_prob", "true or false", *normalized);
    }
    const std::optional<element> dense = find("mlp_only_layers");
    simdjson::dom::array layers;
    const bool is_list = dense.has_value() && dense->get(layers) == simdjson::SUCCESS;
    if (dense.has_value() && !dense->is_null() && (!is_list || layers.size() > 0)) {
      return unsupported("mlp_only_layers", "none", *dense);
    }
  }
  set("moe_router_pre_softmax", !is_normalized);
  return Status();
}

void ConfigReader::note_other_keys() {
  std::string others;
  for (const auto& [key, value] : root_) {
    const std::string_view name = key;
    const bool is_read = std::find(read_keys_.begin(), read_keys_.end(), name) != read_keys_.end();
    if (is_read || is_neutral_key(name)) continue;
    others += fmt::format("{}{}", others.empty() ? "" : ", ", text::printable(name));
  }
  if (!others.empty()) {
    config_.notes.push_back(
        fmt::format("{}: ignored, because transformers' {} does not read it: {}", name_,
                    config_.architecture.class_name, others));
  }
}

}  // namespace

std::optional<megatron::FieldValue> HuggingFaceConfig::field(std::string_view name) const {
  for (const auto& [field, value] : fields) {
    if (field == name) return value;
  }
  return std::nullopt;
}

Result<HuggingFaceConfig> read_huggingface_config(std::string_view json, const std::string& name) {
  simdjson::dom::parser parser;
  MEG_ASSIGN_OR_RETURN(const object root, parse_json_object(&parser, json, name));
  return ConfigReader(root, name).read();
}

}  // namespace meg::checkpoint
