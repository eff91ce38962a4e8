#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::serving {

/// One message of a conversation.
struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant".
  std::string content;
};

/// How a tokenizer's chat template writes a conversation as a prompt; called from many threads.
/// add_generation_prompt: whether the prompt ends with the beginning of the assistant's answer.
/// Errors: kInvalidArgument for a conversation that the template refuses.
using ChatTemplate = std::function<Result<std::string>(const std::vector<ChatMessage>& messages,
                                                       bool add_generation_prompt)>;

}  // namespace meg::serving
