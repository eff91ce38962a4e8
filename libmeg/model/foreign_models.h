#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace meg::model {

/// A parameter that GPT models do not have.
struct ForeignParameter {
  std::string_view name;   ///< One of those that were looked at.
  std::string_view model;  ///< What has it: "T5", "Mamba layers (hybrid_layer_pattern)".
};

/// The parameter that best identifies the kind of model that these names belong to, or an
/// unsupported part of a model; nullopt if none does. names: flat, those that no rule of the
/// ParameterTable knows; they outlive the result.
std::optional<ForeignParameter> foreign_parameter(std::span<const std::string> names);

}  // namespace meg::model
