#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "libmeg/checkpoint/container/json/json_object.h"
#include "libmeg/checkpoint/dialects/huggingface/huggingface_config.h"
#include "libmeg/checkpoint/dialects/huggingface/internal/attention_window.h"
#include "libmeg/checkpoint/dialects/huggingface/internal/config_rows.h"
#include "libmeg/checkpoint/dialects/huggingface/internal/rotary_scaling.h"
#include "libmeg/model/layer_lists.h"

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

/// Whether a list or an object has no members.
bool is_empty(const element& value) {
  simdjson::dom::array list;
  object members;
  return (value.get(list) == simdjson::SUCCESS && list.size() == 0) ||
         (value.get(members) == simdjson::SUCCESS && members.size() == 0);
}

/// Reads config.json by tables (config_rows.cpp): keys that become Megatron's fields, keys that
/// must have one value, and fields that the architecture decides. Keys that none of them knows are
/// named in a note: no code of transformers that computes such a model reads them.
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
    read_dtype();
    MEG_RETURN_IF_ERROR(read_tied());
    keys_ = keys_of(config_.architecture.bit);
    MEG_RETURN_IF_ERROR(read_flags());
    MEG_RETURN_IF_ERROR(read_activation());
    MEG_RETURN_IF_ERROR(read_dropouts());
    MEG_RETURN_IF_ERROR(read_scales());
    MEG_RETURN_IF_ERROR(read_layers_without_rope());
    if (!is_mine(kGpt2)) MEG_RETURN_IF_ERROR(read_rotary());
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

  /// What the class takes for a missing key; None where it has no default.
  megatron::FieldValue default_value(std::string_view key) const;
  /// nullopt: the default of default_of() counts. Null only where that is a value of the key.
  Result<std::optional<element>> find_or_default(std::string_view key, std::string_view expected);
  Result<std::optional<element>> find_row(const ConfigRow& row, std::string_view expected);
  Status read_flag(std::string_view key, bool* value);

  Status read_architecture();
  Status check_class(const element& classes) const;
  Status check_fixed_keys();
  Status read_row(const ConfigRow& row);
  void read_dtype();
  Status read_tied();
  Status read_flags();
  Status read_activation();
  Status read_dropouts();
  Status read_scales();
  Status read_layers_without_rope();
  Status read_rotary();
  Status read_windows();
  Status read_experts();
  void note_other_keys();

  const object& root_;
  const std::string& name_;
  HuggingFaceConfig config_;
  ArchitectureKeys keys_;
  std::vector<bool> without_rope_;  ///< Layers whose queries and keys are not rotated.
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
    MEG_ASSIGN_OR_RETURN(const std::optional<element> found,
                         find_or_default(fixed.key, megatron::field_text(fixed.value)));
    if (!found.has_value()) {
      const megatron::FieldValue otherwise = default_value(fixed.key);
      const bool is_other =
          otherwise != megatron::FieldValue() && !megatron::same_field(otherwise, fixed.value);
      if (is_other) {
        return make_error(StatusCode::kUnsupported,
                          "{}: {}: expected {}, found none, which means {}", name_, fixed.key,
                          megatron::field_text(fixed.value), megatron::field_text(otherwise));
      }
      continue;
    }
    if (found->is_null()) continue;
    // Written empty by old revisions, or where no layer differs.
    const bool takes_empty = fixed.key == "pruned_heads" || fixed.key == "per_layer_config";
    if (takes_empty && is_empty(*found)) continue;
    const std::optional<megatron::FieldValue> value = field_of(*found);
    if (!value.has_value() || !megatron::same_field(*value, fixed.value)) {
      return unsupported(fixed.key, megatron::field_text(fixed.value), *found);
    }
  }
  return Status();
}

megatron::FieldValue ConfigReader::default_value(std::string_view key) const {
  const KeyDefault* found = default_of(config_.architecture.bit, key);
  return found == nullptr ? megatron::FieldValue() : found->value;
}

Result<std::optional<element>> ConfigReader::find_or_default(std::string_view key,
                                                             std::string_view expected) {
  const std::optional<element> found = find(key);
  if (!found.has_value() || !found->is_null()) return found;
  const KeyDefault* row = default_of(config_.architecture.bit, key);
  if (row == nullptr) return std::optional<element>();
  // Null is a value of a few keys. For the others transformers refuses it.
  if (!row->takes_null) return unsupported(key, expected, *found);
  return found;
}

/// The value of a row under either name of its key. Attributes that an attribute_map joins have one
/// value in transformers, the last one set.
Result<std::optional<element>> ConfigReader::find_row(const ConfigRow& row,
                                                      std::string_view expected) {
  MEG_ASSIGN_OR_RETURN(const std::optional<element> found, find_or_default(row.key, expected));
  const std::optional<element> other = row.other_key.empty() ? std::nullopt : find(row.other_key);
  if (!other.has_value()) return found;
  if (other->is_null()) return unsupported(row.other_key, expected, *other);
  const auto value = field_of(*other);
  if (found.has_value() && value != field_of(*found)) {
    return make_error(StatusCode::kCorruption, "{}: {}: expected {} as in {}, found {}", name_,
                      row.other_key, json_value_text(*found), row.key, json_value_text(*other));
  }
  return other;
}

Status ConfigReader::read_row(const ConfigRow& row) {
  const std::string expected =
      row.is_real ? "a number" : fmt::format("a size from 1 to {}", kMaxSize);
  MEG_ASSIGN_OR_RETURN(const std::optional<element> found, find_row(row, expected));
  if (!found.has_value()) {
    const KeyDefault* otherwise = default_of(config_.architecture.bit, row.key);
    if (otherwise == nullptr) return missing(row.key);
    // A default of None leaves the field away: Megatron then derives it from others.
    if (otherwise->value != megatron::FieldValue()) set(row.field, otherwise->value);
    return Status();
  }
  if (found->is_null()) return Status();
  int64_t size = 0;
  double number = 0;
  const bool is_number = found->get(number) == simdjson::SUCCESS;
  const bool is_whole = found->get(size) == simdjson::SUCCESS;
  if (row.is_real ? !is_number : (!is_whole || size < 1 || size > kMaxSize)) {
    return make_error(StatusCode::kCorruption, "{}: {}: expected {}, found {}", name_, row.key,
                      expected, json_value_text(*found));
  }
  if (row.field == "vocab_size") {
    config_.vocab_size = size;
  } else if (row.is_real) {
    set(row.field, number);
  } else {
    set(row.field, size);
  }
  return Status();
}

Status ConfigReader::read_flag(std::string_view key, bool* value) {
  *value = std::get<bool>(default_value(key));
  const std::optional<element> found = find(key);
  if (!found.has_value() || found->get(*value) == simdjson::SUCCESS) return Status();
  return unsupported(key, "true or false", *found);
}

/// transformers 5's key takes precedence over 4's.
void ConfigReader::read_dtype() {
  for (const char* key : {"torch_dtype", "dtype"}) {
    const std::optional<element> found = find(key);
    std::string_view name;
    if (found.has_value() && found->get(name) == simdjson::SUCCESS) config_.dtype = name;
  }
  if (config_.dtype == "auto") config_.dtype.clear();
}

Status ConfigReader::read_tied() {
  bool is_tied = false;
  MEG_RETURN_IF_ERROR(read_flag("tie_word_embeddings", &is_tied));
  set("untie_embeddings_and_output_weights", !is_tied);
  return Status();
}

Status ConfigReader::read_flags() {
  if (!keys_.bias.empty()) {
    bool has_biases = false;
    MEG_RETURN_IF_ERROR(read_flag(keys_.bias, &has_biases));
    set("add_bias_linear", has_biases);
  }
  if (!is_mine(kGptNeox)) return Status();
  bool is_parallel = false;
  MEG_RETURN_IF_ERROR(read_flag("use_parallel_residual", &is_parallel));
  set("parallel_residual", is_parallel);
  return Status();
}

/// GELU in its two forms. Megatron's fusion with the bias has that by tanh.
Status ConfigReader::read_activation() {
  if (keys_.activation.empty()) return Status();
  const std::optional<element> activation = find(keys_.activation);
  const megatron::FieldValue otherwise = default_value(keys_.activation);
  std::string_view name = std::get<std::string>(otherwise);
  if (activation.has_value() && activation->get(name) != simdjson::SUCCESS) name = {};
  // The first Gemma's configs say gelu and mean the other form, which their class takes.
  const bool is_tanh = name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast" ||
                       (name == "gelu" && is_mine(kGemma));
  if (!is_tanh && (name != "gelu" || is_mine(kGemmas))) {
    return unsupported(
        keys_.activation,
        is_mine(kGemmas) ? "gelu_pytorch_tanh" : "gelu_new, gelu_pytorch_tanh or gelu",
        *activation);
  }
  set("bias_gelu_fusion", is_tanh);
  // Without biases there is no such fusion.
  if (is_tanh && *config_.field("add_bias_linear") == megatron::FieldValue(false)) {
    set("openai_gelu", true);
  }
  return Status();
}

Status ConfigReader::read_dropouts() {
  if (keys_.dropout.empty()) set("hidden_dropout", 0.0);
  if (keys_.embedding_dropout.empty()) return Status();
  MEG_ASSIGN_OR_RETURN(const std::optional<element> embedding,
                       find_or_default(keys_.embedding_dropout, "a number"));
  const megatron::FieldValue dropout = embedding.has_value()
                                           ? field_of(*embedding).value_or(megatron::FieldValue())
                                           : default_value(keys_.embedding_dropout);
  const megatron::FieldValue hidden = *config_.field("hidden_dropout");
  if (!megatron::same_field(dropout, hidden)) {
    config_.notes.push_back(
        fmt::format("{}: {} {} is not kept: Megatron has one hidden_dropout, {} as in {}", name_,
                    keys_.embedding_dropout, megatron::field_text(dropout),
                    megatron::field_text(hidden), keys_.dropout));
  }
  return Status();
}

/// Gemma's factors of embeddings and attention scores.
Status ConfigReader::read_scales() {
  if (!is_mine(kGemmas)) return Status();
  const auto hidden_size = std::get<int64_t>(*config_.field("hidden_size"));
  set("embedding_multiplier", std::sqrt(static_cast<double>(hidden_size)));
  if (is_mine(kGemma)) return Status();
  constexpr std::string_view kKey = "query_pre_attn_scalar";
  int64_t scalar = std::get<int64_t>(default_value(kKey));
  const std::optional<element> found = find(kKey);
  if (found.has_value() && (found->get(scalar) != simdjson::SUCCESS || scalar < 1)) {
    return unsupported(kKey, "an integer above 0", *found);
  }
  set("softmax_scale", 1 / std::sqrt(static_cast<double>(scalar)));
  return Status();
}

/// SmolLM3's list, 0 where a layer has no rotary embedding, or every so many layers one.
Status ConfigReader::read_layers_without_rope() {
  if (!is_mine(kSmolLm3)) return Status();
  const auto num_layers = std::get<int64_t>(*config_.field("num_layers"));
  const std::optional<element> list = find("no_rope_layers");
  const std::optional<element> interval = find("no_rope_layer_interval");
  if (list.has_value() && !list->is_null()) {
    simdjson::dom::array values;
    if (list->get(values) == simdjson::SUCCESS) {
      for (const element value : values) {
        int64_t has_rope = -1;
        if (value.get(has_rope) != simdjson::SUCCESS || (has_rope != 0 && has_rope != 1)) {
          return unsupported("no_rope_layers", "0 or 1 for each layer", *list);
        }
        without_rope_.push_back(has_rope == 0);
      }
    }
    if (std::ssize(without_rope_) != num_layers) {
      return unsupported("no_rope_layers", fmt::format("a list of {} layers", num_layers), *list);
    }
  } else {
    int64_t step = std::get<int64_t>(default_value("no_rope_layer_interval"));
    if (interval.has_value() && (interval->get(step) != simdjson::SUCCESS || step < 1)) {
      return unsupported("no_rope_layer_interval", "a number of layers", *interval);
    }
    for (int64_t i = 1; i <= num_layers; ++i) without_rope_.push_back(i % step == 0);
  }
  if (std::ranges::find(without_rope_, true) == without_rope_.end()) return Status();
  set("no_rope_freq", model::layer_list_field(without_rope_));
  return Status();
}

Status ConfigReader::read_rotary() {
  const auto number_or = [this](std::string_view key) -> std::optional<double> {
    const megatron::FieldValue value = default_value(key);
    const auto* number = std::get_if<double>(&value);
    return number == nullptr ? std::nullopt : std::optional(*number);
  };
  const RotaryKeys keys = {
      .base_key = keys_.rotary_base,
      .base = find(keys_.rotary_base),
      .share_key = keys_.rotary_share,
      .share = keys_.rotary_share.empty() ? std::nullopt : find(keys_.rotary_share),
      .local_base = is_mine(kGemma3) ? find("rope_local_base_freq") : std::nullopt,
      .scaling = find("rope_scaling"),
      .parameters = find("rope_parameters"),
      .context = find("original_max_position_embeddings"),
      .default_base = *number_or(keys_.rotary_base),
      .default_share = number_or(keys_.rotary_share).value_or(1),
      .default_local_base =
          number_or(is_mine(kGemma3) ? "rope_local_base_freq" : keys_.rotary_base).value_or(0),
      .is_layered = is_mine(kLayeredRotary)};
  const auto positions = std::get<int64_t>(*config_.field("max_position_embeddings"));
  MEG_ASSIGN_OR_RETURN(const RotaryScaling found, read_rotary_scaling(keys, positions, name_));
  if (is_mine(kPhi3) && !found.is_plain()) {
    return make_error(StatusCode::kUnsupported, "{}: rope_scaling: expected rope_type default",
                      name_);
  }
  found.add_fields(&config_.fields);
  return Status();
}

/// Attention to the last tokens alone.
Status ConfigReader::read_windows() {
  WindowKeys keys;
  keys.types = find("layer_types");
  if (is_mine(kMistral) && keys.types.has_value()) {
    // AutoConfig takes such a model for one of another class.
    return unsupported("layer_types", "none for " + std::string(config_.architecture.class_name),
                       *keys.types);
  }
  MEG_ASSIGN_OR_RETURN(const std::optional<element> window,
                       find_or_default("sliding_window", "a number of tokens"));
  if (default_of(config_.architecture.bit, "use_sliding_window") != nullptr) {
    MEG_RETURN_IF_ERROR(read_flag("use_sliding_window", &keys.is_used));
  }
  const megatron::FieldValue otherwise = default_value("sliding_window");
  if (const auto* tokens = std::get_if<int64_t>(&otherwise)) keys.window = *tokens;
  if (window.has_value() && window->is_null()) keys.window.reset();
  int64_t tokens = 0;
  // Qwen2MoeConfig saves 0 where no window is used.
  if (keys.is_used && window.has_value() && !window->is_null()) {
    if (window->get(tokens) != simdjson::SUCCESS || tokens < 1 || tokens > kMaxSize) {
      return unsupported("sliding_window", "null or a number of tokens", *window);
    }
    keys.window = tokens;
  }
  const std::optional<element> first = find("max_window_layers");
  if (default_of(config_.architecture.bit, "max_window_layers") != nullptr) {
    keys.first_layer = std::get<int64_t>(default_value("max_window_layers"));
    if (first.has_value() && first->get(keys.first_layer) != simdjson::SUCCESS) {
      return unsupported("max_window_layers", "a number of layers", *first);
    }
  }
  if (is_mine(kGemma3)) {
    const std::optional<element> pattern = find("sliding_window_pattern");
    keys.full_every = std::get<int64_t>(default_value("sliding_window_pattern"));
    if (pattern.has_value() &&
        (pattern->get(keys.full_every) != simdjson::SUCCESS || keys.full_every < 1)) {
      return unsupported("sliding_window_pattern", "a number of layers", *pattern);
    }
  }
  keys.without_rope = without_rope_;
  keys.num_layers = std::get<int64_t>(*config_.field("num_layers"));
  keys.positions = std::get<int64_t>(*config_.field("max_position_embeddings"));
  MEG_ASSIGN_OR_RETURN(const std::optional<AttentionWindow> found,
                       read_attention_window(config_.architecture, keys, name_));
  if (found.has_value()) found->add_fields(&config_.fields);
  return Status();
}

/// Every layer has them; Mixtral's router gives the chosen ones probabilities that add up to 1,
/// Qwen's those among all experts unless it says so.
Status ConfigReader::read_experts() {
  bool is_normalized = true;
  if (is_mine(kQwenExpertArchitectures)) {
    MEG_RETURN_IF_ERROR(read_flag("norm_topk_prob", &is_normalized));
    const std::optional<element> dense = find("mlp_only_layers");
    if (dense.has_value() && !dense->is_null() && !is_empty(*dense)) {
      return unsupported("mlp_only_layers", "none", *dense);
    }
  }
  set("moe_router_pre_softmax", !is_normalized);
  return Status();
}

void ConfigReader::note_other_keys() {
  if (find("auto_map").has_value()) {
    config_.notes.push_back(fmt::format(
        "{}: auto_map names Python code of the folder, which is not run: the model is read as "
        "transformers' own {}",
        name_, config_.architecture.class_name));
  }
  std::string others;
  for (const auto& [key, value] : root_) {
    const std::string_view name = key;
    const bool is_read = std::find(read_keys_.begin(), read_keys_.end(), name) != read_keys_.end();
    if (is_read || is_neutral_key(name)) continue;
    others += fmt::format("{}{}", others.empty() ? "" : ", ", text::printable(name));
  }
  if (!others.empty()) {
    config_.notes.push_back(
        fmt::format("{}: ignored, because transformers does not read it for {}: {}", name_,
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
