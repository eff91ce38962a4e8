#include "libmeg/model/gpt_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/megatron/field_reader.h"
#include "libmeg/model/internal/proposals.h"
#include "libmeg/model/layer_lists.h"

namespace meg::model {
namespace {

/// Two thirds of four times the hidden size in steps of 64, as Megatron takes it with --swiglu.
int64_t default_ffn_hidden_size(int64_t hidden_size, bool swiglu) {
  return swiglu ? 8 * hidden_size / 3 / 64 * 64 : 4 * hidden_size;
}

/// With group_query_attention off, num_query_groups holds a default that means nothing.
int64_t query_groups(megatron::FieldReader& fields, int64_t num_attention_heads) {
  const std::optional<int64_t> groups = fields.size("num_query_groups");
  const bool grouped = fields.flag("group_query_attention", groups.has_value());
  return grouped ? groups.value_or(1) : num_attention_heads;
}

/// Goes by the names that revisions give to a gate: of core 0.15, of TransformerConfig, and of a
/// fork that is widely trained with.
bool is_gated(megatron::FieldReader& fields, bool swiglu) {
  const bool quick_geglu = fields.flag("quick_geglu", false);
  const bool gated_linear_unit = fields.flag("gated_linear_unit", false);
  const bool geglu = fields.flag("geglu", false);
  return swiglu || quick_geglu || geglu || gated_linear_unit ||
         fields.text("glu_activation").has_value();
}

/// A number of a word, of which a command line may keep the tuple's brackets: "(4095".
std::optional<int64_t> number_of(std::string_view word) {
  const size_t begin = word.find_first_not_of(" ([");
  const size_t end = word.find_last_not_of(" )]");
  if (begin == std::string_view::npos || end < begin) return std::nullopt;
  word = word.substr(begin, end + 1 - begin);
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_whole = error == std::errc() && stop == word.data() + word.size();
  return is_whole ? std::optional(number) : std::nullopt;
}

void read_texts(megatron::FieldReader& fields, GptConfig& config) {
  if (auto text = fields.text("position_embedding_type")) config.position_embedding_type = *text;
  // Said twice by older revisions: args.add_position_embedding is off with every other type.
  const bool is_learned = fields.flag("add_position_embedding", true);
  if (!is_learned && config.position_embedding_type == "learned_absolute") {
    config.position_embedding_type = "none";
  }
  if (fields.flag("use_rotary_position_embeddings", false)) config.position_embedding_type = "rope";
  if (auto text = fields.text("normalization")) config.normalization = *text;
  if (auto text = fields.text("transformer_impl")) config.transformer_impl = *text;
  if (auto text = fields.text("softmax_type")) config.softmax_type = *text;
}

}  // namespace

Result<std::optional<int64_t>> attention_window(const megatron::FieldLookup& lookup) {
  const megatron::FieldValue value = lookup("window_size").value_or(megatron::FieldValue());
  if (value == megatron::FieldValue()) return std::optional<int64_t>();
  std::vector<std::string> words;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) words = *list;
  if (const auto* text = std::get_if<std::string>(&value)) {
    const size_t comma = text->find(',');
    words = {text->substr(0, comma)};
    if (comma != std::string::npos) words.push_back(text->substr(comma + 1));
  }
  const bool is_pair = words.size() == 2;
  const std::optional<int64_t> left = is_pair ? number_of(words[0]) : std::nullopt;
  const std::optional<int64_t> right = is_pair ? number_of(words[1]) : std::nullopt;
  constexpr int64_t kMost = int64_t{1} << 30;
  if (!left || !right || *left < -1 || *left > kMost || *right < -1 || *right > 0) {
    return make_error(StatusCode::kInvalidArgument, "window_size: expected LEFT,0, found {}",
                      megatron::field_text(value));
  }
  // A causal model sees nothing to its right.
  return *left < 0 ? std::optional<int64_t>() : std::optional(*left + 1);
}

Result<GptConfig> GptConfig::from_fields(const megatron::FieldLookup& lookup) {
  megatron::FieldReader fields(lookup);
  GptConfig config;
  config.num_layers = fields.required_size("num_layers");
  config.hidden_size = fields.required_size("hidden_size");
  config.num_attention_heads = fields.required_size("num_attention_heads");
  config.swiglu = fields.flag("swiglu", false);
  config.gated_linear_unit = is_gated(fields, config.swiglu);
  config.ffn_hidden_size =
      fields.size("ffn_hidden_size")
          .value_or(default_ffn_hidden_size(config.hidden_size, config.swiglu));
  const std::optional<int64_t> kv_channels = fields.size("kv_channels");
  config.num_query_groups = query_groups(fields, config.num_attention_heads);
  config.seq_length = fields.size("seq_length").value_or(0);
  config.max_position_embeddings =
      fields.size("max_position_embeddings").value_or(config.seq_length);
  config.make_vocab_size_divisible_by =
      fields.size("make_vocab_size_divisible_by").value_or(config.make_vocab_size_divisible_by);
  config.padded_vocab_size = fields.size("padded_vocab_size").value_or(0);
  config.add_bias_linear = fields.flag("add_bias_linear", true);
  config.add_qkv_bias = fields.flag("add_qkv_bias", false);
  config.qk_layernorm = fields.flag("qk_layernorm", false);
  config.qk_layernorm_across_heads = fields.flag("qk_layernorm_across_heads", false);
  config.pre_layernorm = fields.flag("pre_layernorm", true);
  config.post_layernorm = fields.flag("post_layernorm", false);
  config.untie_embeddings_and_output_weights =
      fields.flag("untie_embeddings_and_output_weights", false);
  read_texts(fields, config);
  config.num_experts = fields.size("num_experts");
  const std::optional<int64_t> expert_ffn = fields.size("moe_ffn_hidden_size");
  const std::optional<int64_t> shared = fields.size("moe_shared_expert_intermediate_size");
  config.moe_shared_expert_gate = fields.flag("moe_shared_expert_gate", false);
  const bool has_expert_bias = fields.flag("moe_router_enable_expert_bias", false);
  config.moe_router_topk = fields.size("moe_router_topk").value_or(config.moe_router_topk);
  const Result<std::optional<int64_t>> window = model::attention_window(lookup);
  Result<std::vector<bool>> with_window = model::window_layers(lookup, config.num_layers);
  Result<std::vector<bool>> without_rope = model::layers_without_rope(lookup, config.num_layers);
  Result<std::vector<bool>> with_experts = model::layers_with_experts(lookup, config.num_layers);
  // All fields are requested before the first error is looked at: fields_read_by() learns from it
  // which fields this reader knows.
  if (!fields.status().ok()) return fields.status();
  if (!window.has_value()) return window.error();
  config.attention_window = *window;
  if (!with_window.has_value()) return with_window.error();
  if (!without_rope.has_value()) return without_rope.error();
  config.window_layers = *std::move(with_window);
  config.layers_without_rope = *std::move(without_rope);
  if (config.softmax_type != "vanilla" && config.softmax_type != "off-by-one" &&
      config.softmax_type != "learnable") {
    return make_error(StatusCode::kInvalidArgument,
                      "softmax_type: expected vanilla, off-by-one or learnable, found {}",
                      config.softmax_type);
  }
  if (config.ffn_hidden_size == 0) {
    return make_error(
        StatusCode::kInvalidArgument,
        "ffn_hidden_size: expected a value with swiglu and hidden_size {}, found none",
        config.hidden_size);
  }
  // Args of dense models may have it, too.
  if (config.num_experts.has_value()) {
    config.moe_shared_expert_intermediate_size = shared;
    config.moe_router_enable_expert_bias = has_expert_bias;
    if (!with_experts.has_value()) return with_experts.error();
    if (std::ranges::count(*with_experts, false) > 0) config.moe_layers = *std::move(with_experts);
  }
  config.moe_ffn_hidden_size = expert_ffn.value_or(config.ffn_hidden_size);
  if (!kv_channels && config.hidden_size % config.num_attention_heads != 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "hidden_size: expected a multiple of num_attention_heads {}, found {}",
                      config.num_attention_heads, config.hidden_size);
  }
  config.kv_channels = kv_channels.value_or(config.hidden_size / config.num_attention_heads);
  if (config.num_attention_heads % config.num_query_groups != 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "num_attention_heads: expected a multiple of num_query_groups {}, found {}",
                      config.num_query_groups, config.num_attention_heads);
  }
  return config;
}

bool GptConfig::has_experts(int64_t layer) const {
  if (!num_experts.has_value()) return false;
  return moe_layers.empty() || moe_layers[static_cast<size_t>(layer)];
}

int64_t GptConfig::num_moe_layers() const {
  if (!num_experts.has_value()) return 0;
  return moe_layers.empty() ? num_layers : std::ranges::count(moe_layers, true);
}

std::vector<bool> GptConfig::layers_with_experts() const {
  if (num_experts.has_value() && !moe_layers.empty()) return moe_layers;
  return std::vector<bool>(static_cast<size_t>(num_layers), num_experts.has_value());
}

std::optional<int64_t> GptConfig::window_of(int64_t layer) const {
  const bool has_window = window_layers.empty() || window_layers[static_cast<size_t>(layer)];
  return has_window ? attention_window : std::nullopt;
}

std::optional<int64_t> GptConfig::most_positions() const {
  const bool is_learned = position_embedding_type == "learned_absolute";
  return is_learned ? std::optional(max_position_embeddings) : std::nullopt;
}

Status GptConfig::check_positions(std::string_view name, int64_t length) const {
  const std::optional<int64_t> most = most_positions();
  if (!most.has_value() || length <= *most) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected at most max_position_embeddings {}, found {}", name, *most,
                    length);
}

int64_t GptConfig::qkv_rows() const {
  return (num_attention_heads + 2 * num_query_groups) * kv_channels;
}

int64_t GptConfig::mlp_rows() const {
  return gated_linear_unit ? 2 * ffn_hidden_size : ffn_hidden_size;
}

int64_t GptConfig::shared_rows() const {
  const int64_t size = moe_shared_expert_intermediate_size.value_or(0);
  return gated_linear_unit ? 2 * size : size;
}

bool GptConfig::divides_query_groups(int64_t tensor_model_parallel_size) const {
  if (num_query_groups % tensor_model_parallel_size == 0) return true;
  // More ranks than groups: several ranks share the rows of one group.
  return tensor_model_parallel_size % num_query_groups == 0 &&
         qkv_rows() % tensor_model_parallel_size == 0;
}

Status GptConfig::check_tensor_parallel_size(int64_t tensor_model_parallel_size) const {
  const std::pair<std::string_view, int64_t> cut[] = {{"num_attention_heads", num_attention_heads},
                                                      {"hidden_size", hidden_size},
                                                      {"ffn_hidden_size", ffn_hidden_size}};
  const auto remainders = [&](int64_t size) {
    std::string text;
    const auto add = [&text](std::string_view name, int64_t value) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
    };
    for (const auto& [name, value] : cut) {
      if (value % size != 0) add(name, value);
    }
    const bool is_grouped = num_query_groups != num_attention_heads;
    if (is_grouped && !divides_query_groups(size)) {
      if (size % num_query_groups == 0) {
        add("rows of queries, keys and values:", qkv_rows());
      } else {
        add("num_query_groups", num_query_groups);
      }
    }
    return text;
  };
  const bool is_positive = tensor_model_parallel_size > 0;
  const std::string undivided = is_positive ? remainders(tensor_model_parallel_size) : "anything";
  if (undivided.empty()) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "tensor-model-parallel-size: {} does not divide {}; sizes up to {} that do: {}",
                    tensor_model_parallel_size, undivided, kLargestProposal,
                    proposals([&](int64_t size) { return remainders(size).empty(); }));
}

}  // namespace meg::model
