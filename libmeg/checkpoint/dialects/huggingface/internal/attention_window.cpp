#include "libmeg/checkpoint/dialects/huggingface/internal/attention_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "libmeg/checkpoint/container/json/json_object.h"
#include "libmeg/checkpoint/dialects/huggingface/internal/config_rows.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/layer_lists.h"

namespace meg::checkpoint {
namespace {

using simdjson::dom::element;

constexpr std::string_view kSliding = "sliding_attention", kFull = "full_attention";

/// Classes whose masks and cache follow layer_types; the others have one mask for all layers.
constexpr ArchitectureSet kLayered =
    kQwen2 | kQwen3 | kQwen2Moe | kOlmo3 | kGemma2 | kGemma3 | kSmolLm3;
constexpr ArchitectureSet kUniform = kMistral | kMixtral | kQwen3Moe | kStarcoder2 | kPhi3;
/// Classes whose layers slide if nothing is said, each but the n-th.
constexpr ArchitectureSet kSlidingByDefault = kOlmo3 | kGemma2 | kGemma3;

/// The layers that slide where layer_types is missing.
std::vector<bool> default_layers(ArchitectureSet architecture, const WindowKeys& keys) {
  if (architecture == kSmolLm3) return keys.without_rope;
  std::vector<bool> layers;
  if ((architecture & kSlidingByDefault) != 0) {
    const int64_t step = architecture == kOlmo3 ? 4 : architecture == kGemma2 ? 2 : keys.full_every;
    for (int64_t i = 1; i <= keys.num_layers; ++i) layers.push_back(i % step != 0);
    return layers;
  }
  for (int64_t i = 0; i < keys.num_layers; ++i) {
    const bool is_late = i >= keys.first_layer;
    const bool is_even = i % 2 == 0;
    layers.push_back(architecture == kQwen2Moe ? is_even && !is_late
                                               : (architecture & kUniform) != 0 || is_late);
  }
  return layers;
}

Result<std::vector<bool>> listed_layers(const element& types, int64_t num_layers,
                                        const std::string& name) {
  simdjson::dom::array list;
  std::vector<bool> layers;
  if (types.get(list) == simdjson::SUCCESS) {
    for (const element layer : list) {
      std::string_view type;
      if (layer.get(type) != simdjson::SUCCESS || (type != kSliding && type != kFull)) {
        return make_error(StatusCode::kUnsupported,
                          "{}: layer_types: expected full_attention or sliding_attention, found {}",
                          name, json_value_text(layer));
      }
      layers.push_back(type == kSliding);
    }
  }
  if (std::ssize(layers) == num_layers) return layers;
  return make_error(StatusCode::kUnsupported,
                    "{}: layer_types: expected a list of {} layers, found {}", name, num_layers,
                    layers.empty() ? json_value_text(types) : std::to_string(layers.size()));
}

Status unsupported_layers(const std::string& name, std::string_view expected,
                          std::string_view found) {
  return make_error(StatusCode::kUnsupported, "{}: layer_types: expected {}, found \"{}\"", name,
                    expected, found);
}

}  // namespace

void AttentionWindow::add_fields(
    std::vector<std::pair<std::string, megatron::FieldValue>>* fields) const {
  fields->emplace_back("window_size",
                       std::vector<std::string>{std::to_string(tokens - 1), std::to_string(0)});
  if (layers.empty()) return;
  fields->emplace_back("window_attn_skip_freq", model::layer_list_field(layers));
}

Result<std::optional<AttentionWindow>> AttentionWindow::from_fields(
    const megatron::FieldLookup& args, int64_t num_layers) {
  MEG_ASSIGN_OR_RETURN(const std::optional<int64_t> tokens, model::attention_window(args));
  if (!tokens.has_value()) return std::optional<AttentionWindow>();
  MEG_ASSIGN_OR_RETURN(std::vector<bool> layers, model::window_layers(args, num_layers));
  if (std::ranges::find(layers, false) == layers.end()) layers.clear();
  return std::optional(AttentionWindow{.tokens = *tokens, .layers = std::move(layers)});
}

Result<std::optional<AttentionWindow>> read_attention_window(
    const HuggingFaceArchitecture& architecture, const WindowKeys& keys, const std::string& name) {
  const bool is_listed = keys.types.has_value() && !keys.types->is_null();
  const bool slides = keys.is_used && keys.window.has_value();
  AttentionWindow window{.tokens = keys.window.value_or(0), .layers = {}};
  if (is_listed) {
    MEG_ASSIGN_OR_RETURN(window.layers, listed_layers(*keys.types, keys.num_layers, name));
    const bool any = std::ranges::find(window.layers, true) != window.layers.end();
    const bool all = std::ranges::find(window.layers, false) == window.layers.end();
    if (any && !slides) return unsupported_layers(name, kFull, kSliding);
    // A mask for all layers would contradict the list, which the cache follows.
    if (!all && slides && (architecture.bit & kLayered) == 0) {
      return unsupported_layers(name, kSliding, kFull);
    }
  } else if (slides || (architecture.bit & kSlidingByDefault) != 0) {
    window.layers = default_layers(architecture.bit, keys);
    const bool any = std::ranges::find(window.layers, true) != window.layers.end();
    if (any && !slides) {
      return make_error(StatusCode::kUnsupported,
                        "{}: sliding_window: expected a number of tokens without layer_types, "
                        "found null",
                        name);
    }
  }
  if (std::ranges::find(window.layers, true) == window.layers.end()) {
    return std::optional<AttentionWindow>();
  }
  if ((architecture.bit & (kLayered | kUniform)) != 0) {
    if (std::ranges::find(window.layers, false) == window.layers.end()) window.layers.clear();
    return std::optional(std::move(window));
  }
  // Masks of this class have no window, but transformers' cache forgets what is behind it.
  if (window.tokens >= keys.positions) return std::optional<AttentionWindow>();
  return make_error(StatusCode::kUnsupported,
                    "{}: sliding_window: expected null or at least max_position_embeddings {} for "
                    "{}, found {}",
                    name, keys.positions, architecture.class_name, window.tokens);
}

bool has_window(ArchitectureSet architecture, const std::optional<AttentionWindow>& window) {
  if (!window.has_value()) return true;
  return (architecture & (window->layers.empty() ? kLayered | kUniform : kLayered)) != 0;
}

std::map<std::string, std::string> window_keys(ArchitectureSet architecture,
                                               const std::optional<AttentionWindow>& window,
                                               int64_t num_layers) {
  std::map<std::string, std::string> keys;
  const bool has_switch = default_of(architecture, "use_sliding_window") != nullptr;
  if (has_switch) keys["use_sliding_window"] = window.has_value() ? "true" : "false";
  const bool lists_layers =
      (architecture & (window.has_value() ? kLayered : kSlidingByDefault)) != 0;
  if (lists_layers) {
    std::string types;
    for (int64_t i = 0; i < num_layers; ++i) {
      const bool is_sliding =
          window.has_value() && (window->layers.empty() || window->layers[static_cast<size_t>(i)]);
      types += fmt::format("{}\n    \"{}\"", i == 0 ? "" : ",", is_sliding ? kSliding : kFull);
    }
    keys["layer_types"] = "[" + types + "\n  ]";
  }
  if (!window.has_value()) {
    // transformers makes a mask of a window for these, whether a layer has it or not.
    const bool makes_mask = (architecture & kSlidingByDefault) != 0;
    if (!has_switch && !makes_mask && architecture != kGpt2 && architecture != kLlama) {
      keys["sliding_window"] = "null";
    }
    return keys;
  }
  keys["sliding_window"] = std::to_string(window->tokens);
  if (default_of(architecture, "max_window_layers") == nullptr || !lists_layers) return keys;
  // What transformers before layer_types goes by: the first layer with a window.
  const auto first = std::ranges::find(window->layers, true);
  keys["max_window_layers"] =
      std::to_string(window->layers.empty() ? 0 : first - window->layers.begin());
  return keys;
}

}  // namespace meg::checkpoint
