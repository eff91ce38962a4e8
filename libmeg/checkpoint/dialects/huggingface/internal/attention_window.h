#pragma once

#include <simdjson.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/huggingface/huggingface_config.h"
#include "libmeg/megatron/field_value.h"

namespace meg::checkpoint {

/// Attention to the last tokens alone.
struct AttentionWindow {
  int64_t tokens = 0;        ///< As many, the query's own among them.
  std::vector<bool> layers;  ///< Those that have it; empty: all.

  /// The window under Megatron's names: window_size, window_attn_skip_freq.
  void add_fields(std::vector<std::pair<std::string, megatron::FieldValue>>* fields) const;

  /// The inverse; nullopt without a window. kInvalidArgument for values that Megatron has no use
  /// for.
  static Result<std::optional<AttentionWindow>> from_fields(const megatron::FieldLookup& args,
                                                            int64_t num_layers);
};

/// The keys of config.json from which the window is read.
struct WindowKeys {
  std::optional<int64_t> window;                ///< sliding_window, or its default.
  std::optional<simdjson::dom::element> types;  ///< layer_types
  bool is_used = true;                          ///< use_sliding_window
  int64_t first_layer = 0;                      ///< max_window_layers
  int64_t full_every = 0;                       ///< sliding_window_pattern
  std::vector<bool> without_rope;               ///< The layers that no_rope_layers lists.
  int64_t num_layers = 0;
  int64_t positions = 0;  ///< max_position_embeddings
};

/// The window that transformers' class computes with; nullopt if there is none. kUnsupported, with
/// the key, where its mask and its cache would differ.
Result<std::optional<AttentionWindow>> read_attention_window(
    const HuggingFaceArchitecture& architecture, const WindowKeys& keys, const std::string& name);

/// Whether a class of transformers' has such a window.
bool has_window(ArchitectureSet architecture, const std::optional<AttentionWindow>& window);

/// The keys of config.json for it, as JSON texts, of a class that has_window().
std::map<std::string, std::string> window_keys(ArchitectureSet architecture,
                                               const std::optional<AttentionWindow>& window,
                                               int64_t num_layers);

}  // namespace meg::checkpoint
