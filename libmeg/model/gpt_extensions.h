#pragma once

#include <span>
#include <string_view>

#include "libmeg/megatron/field_value.h"

namespace meg::model {

/// A field of a GPT model that Megatron-LM has no argument for. Checkpoints of models that need it
/// have it among their args; Megatron-LM itself would not look at it.
struct ExtensionField {
  std::string_view name;
  megatron::FieldValue otherwise;  ///< The value of a model of Megatron's.
};

/// All of them; GptConfig and nn::GptOptions describe what they mean.
std::span<const ExtensionField> extension_fields();

}  // namespace meg::model
