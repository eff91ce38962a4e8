#pragma once

#include <simdjson.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/field_value.h"

namespace meg::checkpoint {

/// How fast rotary embeddings turn, as far as Megatron can say it.
struct RotaryScaling {
  double base = 10000;
  double interpolation_factor = 1;      ///< What positions are divided by ("linear").
  std::optional<double> llama3_factor;  ///< As Llama 3.1 slows them.

  /// By Megatron's names: rotary_base ...
  void add_fields(std::vector<std::pair<std::string, megatron::FieldValue>>* fields) const;

  /// The inverse. kUnsupported where Megatron's args ask for what transformers cannot do.
  static Result<RotaryScaling> from_fields(const megatron::FieldLookup& args);

  /// By transformers 5's names, as JSON texts.
  std::map<std::string, std::string> parameters() const;

  bool operator==(const RotaryScaling&) const = default;
};

/// The keys of config.json that speak of it.
struct RotaryKeys {
  std::optional<simdjson::dom::element> theta;       ///< rope_theta
  std::optional<simdjson::dom::element> scaling;     ///< rope_scaling
  std::optional<simdjson::dom::element> parameters;  ///< rope_parameters
};

/// kUnsupported, by name, for kinds of scaling that Megatron does not have, or has with other
/// numbers; kCorruption where spellings that are there differ. max_position_embeddings: what
/// Llama 3.1's scaling takes for its original positions where nothing is said.
Result<RotaryScaling> read_rotary_scaling(const RotaryKeys& keys, int64_t max_position_embeddings,
                                          const std::string& name);

}  // namespace meg::checkpoint
