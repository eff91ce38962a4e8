#pragma once

#include <span>
#include <string>
#include <string_view>

namespace meg::model {

/// The kind of model that parameters of these names are of, where GPT has none of their kind:
/// "BERT", "T5", "GPT-NeoX" or "GPT-Neo"; empty where they tell nothing.
/// names: flat, those that no rule of the ParameterTable knows.
std::string_view foreign_model(std::span<const std::string> names);

}  // namespace meg::model
