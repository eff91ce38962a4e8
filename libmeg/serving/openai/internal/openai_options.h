#pragma once

#include <cstdint>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/serving/internal/json_fields.h"
#include "libmeg/serving/openai/openai_request.h"
#include "libmeg/serving/text_request.h"

namespace meg::serving {

// Parts of requests that are the same in completions and chat, or have another key there. Absent
// keys change nothing.

/// All but the prompt and log probabilities, which the two ask for differently. vocab_size: of ids.
Status read_openai_options(const JsonFields& fields, const RequestRules& rules, int64_t vocab_size,
                           OpenAiOptions* options);

Status read_max_tokens(const JsonFields& fields, std::string_view key, const RequestRules& rules,
                       OpenAiOptions* options);

/// The number of alternatives.
Status read_logprobs(const JsonFields& fields, std::string_view key, OpenAiOptions* options);

}  // namespace meg::serving
