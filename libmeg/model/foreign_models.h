#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace meg::model {

/// A parameter that GPT models do not have.
struct ForeignParameter {
  std::string_view name;   ///< One of the given names.
  std::string_view model;  ///< The model that has it: "T5", "Mamba layers (hybrid_layer_pattern)".
};

/// The parameter that best identifies the kind of model that these names belong to, or an
/// unsupported part of a model; nullopt if none does. names: flat names that no rule of the
/// ParameterTable knows; they must outlive the result.
std::optional<ForeignParameter> foreign_parameter(std::span<const std::string> names);

}  // namespace meg::model
