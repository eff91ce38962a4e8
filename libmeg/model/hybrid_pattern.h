#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/argument_values.h"
#include "libmeg/megatron/field_reader.h"

namespace meg::model {

/// A hybrid model whose layers are those of a GPT model: alternating attention and MLP.
struct HybridPattern {
  /// Number of GPT layers of each pipeline segment; one segment if the pattern does not split it.
  std::vector<int64_t> segments;
  std::vector<bool> moe_layers = {};  ///< The GPT layers with experts; empty: none.

  int64_t num_layers() const;
  bool has_experts() const;

  /// moe_layer_freq of that GPT model.
  megatron::FieldValue moe_layer_freq() const;
};

/// --hybrid-layer-pattern, such as "*-*-|*-*-": `*` attention, `-` an MLP, `E` experts, `|` the end
/// of a pipeline segment. kUnsupported for other layers, and if they are not in pairs. Mirrors
/// Megatron-LM megatron/core/models/hybrid/hybrid_layer_allocation.py: parse_hybrid_pattern.
Result<HybridPattern> parse_hybrid_pattern(std::string_view text);

/// The pattern's text.
std::string hybrid_pattern_text(const HybridPattern& pattern);

/// The fields of args that say that a model is a HybridModel.
struct HybridArgs {
  std::optional<std::string> hybrid_layer_pattern = std::nullopt;
  std::optional<std::string> hybrid_override_pattern = std::nullopt;  ///< Its name until core 0.16.
  bool is_hybrid_model = false;

  void take_fields(megatron::FieldReader& args) {
    args.take("hybrid_layer_pattern", hybrid_layer_pattern);
    args.take("hybrid_override_pattern", hybrid_override_pattern);
    args.take("is_hybrid_model", is_hybrid_model);
  }
};

/// Turns the args of a HybridModel into those of the GPT model that it is: num_layers is given as
/// the number of pairs, moe_layer_freq follows from them, and HybridArgs' fields are unset. Returns
/// its pattern; nullopt, and nothing changes, if args have none. Errors: those of
/// parse_hybrid_pattern, with the field's name; kInvalidArgument for fields that contradict the
/// pattern; kUnsupported for a hybrid model without one. Mirrors Megatron-LM
/// megatron/training/arguments.py: validate_args.
Result<std::optional<HybridPattern>> take_hybrid_pattern(megatron::ArgumentValues& args);

/// Turns the pattern's segments, if there are several, into the pipeline_model_parallel_layout that
/// has the same stages. kInvalidArgument if pipeline_model_parallel_size does not divide them, or
/// args split the layers in another way, too.
Status take_hybrid_segments(const HybridPattern& pattern, megatron::ArgumentValues& args);

}  // namespace meg::model
