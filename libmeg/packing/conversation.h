#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::packing {

/// What a line of fine-tuning data says.
struct Conversation {
  /// What a chat template is given: `messages` as {"role", "content"}, `add_generation_prompt`
  /// (false), and `tools`, `documents` and the members of `chat_template_kwargs` where the line has
  /// them.
  nlohmann::ordered_json variables;
  /// Which messages the model is to learn, in order: those of the assistant, except where `weight`
  /// is 0 and in the `prompt` of a pair.
  std::vector<size_t> answers;
  size_t assistant_messages = 0;

  const nlohmann::ordered_json& messages() const { return variables["messages"]; }
};

/// A line with `messages` (OpenAI), `conversations` (ShareGPT: from and value; or role and content)
/// or `prompt` and `completion` (texts, or lists of messages). json: a valid JSON object. Errors:
/// kCorruption with `byte 1: ` and the message, for roles that no chat template knows, other
/// types and missing keys.
Result<Conversation> read_conversation(std::string_view json);

}  // namespace meg::packing
