#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/chat/chat_template.h"

namespace meg::packing {

/// Names of chat templates that need no file: chatml, llama3, mistral, and Megatron's prompt
/// formats nemotron-h-aligned and nemotron-nano-v2.
std::vector<std::string> builtin_template_names();

/// With generation blocks around the assistant's text and the token that ends it.
/// kNotFound for another name.
Result<chat::ChatTemplate> builtin_template(std::string_view name);

}  // namespace meg::packing
