#pragma once

#include <cstddef>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/serving/internal/json_fields.h"

namespace meg::serving {

/// Bytes of an unknown key that messages show.
inline constexpr size_t kShownKey = 60;

/// Keys that would change the answer and are not supported are errors, and so are misspelled ones
/// and those of Megatron's `/api`; others are ignored. is_chat: of `/v1/chat/completions`, else of
/// `/v1/completions`.
Status check_openai_keys(const JsonFields& fields, bool is_chat);

/// The key that a message about a request begins with; empty without one.
std::string_view key_of_message(std::string_view message);

}  // namespace meg::serving
