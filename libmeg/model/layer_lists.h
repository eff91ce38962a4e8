#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/field_value.h"

namespace meg::model {

// Args that say something of each layer: a number N, or a list of 0 and 1 for all layers, on a
// command line also as an expression of lists such as "([1]*3+[0]*1)*3". kInvalidArgument, with the
// arg's name, for anything else. Mirrors Megatron-LM megatron/training/arguments.py: moe_freq_type,
// no_rope_freq_type.

/// The layers in which attention has the window (window_attn_skip_freq): each but the N-th. Empty:
/// all.
Result<std::vector<bool>> window_layers(const megatron::FieldLookup& lookup, int64_t num_layers);

/// The layers without rotary embedding (no_rope_freq): each N-th. Empty: none.
Result<std::vector<bool>> layers_without_rope(const megatron::FieldLookup& lookup,
                                              int64_t num_layers);

/// The layers with experts (moe_layer_freq): the first and each N-th after it. Empty: all.
Result<std::vector<bool>> layers_with_experts(const megatron::FieldLookup& lookup,
                                              int64_t num_layers);

/// Whether an arg that GptConfig reads may be a list: one of these, and window_size.
bool is_list_field(std::string_view name);

/// The args of these three, without window_size.
inline constexpr std::string_view kLayerListFields[] = {"window_attn_skip_freq", "no_rope_freq",
                                                        "moe_layer_freq"};

/// The value of such an arg as Megatron keeps it: a number, or the words 0 and 1 of the list that
/// an expression stands for. Other values stay as they are.
megatron::FieldValue evaluated_layer_list(const megatron::FieldValue& value, int64_t num_layers);

/// The value of such an arg for a list of layers: words 0 and 1.
megatron::FieldValue layer_list_field(const std::vector<bool>& layers);

}  // namespace meg::model
