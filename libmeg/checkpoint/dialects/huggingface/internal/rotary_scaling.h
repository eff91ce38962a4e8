#pragma once

#include <simdjson.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/field_value.h"

namespace meg::checkpoint {

/// The settings of rotary embeddings that Megatron can express.
struct RotaryScaling {
  double base = 10000;
  double interpolation_factor = 1;      ///< Positions are divided by it ("linear").
  std::optional<double> llama3_factor;  ///< Factor of Llama 3.1's scaling.
  double share = 1;                     ///< Of each head, which is rotated: > 0 to 1.
  /// The base in layers with a window, if it or the scaling is another one there; they have no
  /// scaling.
  std::optional<double> local_base;

  /// Whether nothing but the base and the share is set.
  bool is_plain() const {
    return interpolation_factor == 1 && !llama3_factor.has_value() && !local_base.has_value();
  }

  /// The settings under Megatron's names: rotary_base ...
  void add_fields(std::vector<std::pair<std::string, megatron::FieldValue>>* fields) const;

  /// The inverse. kUnsupported if Megatron's args ask for what transformers cannot do.
  static Result<RotaryScaling> from_fields(const megatron::FieldLookup& args);

  /// The settings under transformers 5's names, as JSON texts; without those of local_base.
  std::map<std::string, std::string> parameters() const;

  bool operator==(const RotaryScaling&) const = default;
};

/// The keys of config.json from which the settings are read.
struct RotaryKeys {
  std::string_view base_key = "rope_theta";
  std::optional<simdjson::dom::element> base;
  std::string_view share_key = {};  ///< Of the share that is rotated; empty: always the whole head.
  std::optional<simdjson::dom::element> share;
  std::optional<simdjson::dom::element> local_base;  ///< rope_local_base_freq
  std::optional<simdjson::dom::element> scaling;     ///< rope_scaling
  std::optional<simdjson::dom::element> parameters;  ///< rope_parameters
  /// original_max_position_embeddings beside these: Llama 3.1's scaling prefers it to its own.
  std::optional<simdjson::dom::element> context;
  // What the class takes where no key has it.
  double default_base = 10000, default_share = 1, default_local_base = 10000;
  /// Whether rope_parameters has an object for each type of layers.
  bool is_layered = false;
};

/// kUnsupported, with the name, for kinds of scaling that Megatron lacks or computes with other
/// numbers; kCorruption if several spellings are there and differ. max_position_embeddings: the
/// original positions of Llama 3.1's scaling if the config does not state them.
Result<RotaryScaling> read_rotary_scaling(const RotaryKeys& keys, int64_t max_position_embeddings,
                                          const std::string& name);

}  // namespace meg::checkpoint
