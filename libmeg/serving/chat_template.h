#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::serving {

/// One message of a conversation.
struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant".
  std::string content;
};

/// What a chat template is told.
struct Conversation {
  std::vector<ChatMessage> messages;  ///< At least one.
  /// Whether the prompt ends with the beginning of the assistant's answer.
  bool add_generation_prompt = true;
  /// Whether it ends within the last message, for the model to continue it; not both.
  bool continue_final_message = false;
  /// An object of what else the template may look at: `documents`, `enable_thinking` ...
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
};

/// How a tokenizer's chat template writes a conversation as a prompt; called from many threads.
/// Errors: kInvalidArgument for a conversation that the template refuses.
using ChatTemplate = std::function<Result<std::string>(const Conversation& conversation)>;

}  // namespace meg::serving
