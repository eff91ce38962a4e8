#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/serving/generation_engine.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::serving {

/// `{"logprobs":...,"segments":...,"text":...}` and a newline, in ASCII, keys in this order: for
/// each text its tokens as texts (bytes that are no whole UTF-8 show as U+FFFD) and, with
/// logprobs, one number for every token but the first; else null.
/// Errors: the tokenizer's, for ids that it lacks.
/// Mirrors Megatron-LM megatron/text_generation/api.py: generate_and_post_process.
Result<std::string> text_answer(const tokenizer::Tokenizer& tokenizer,
                                const std::vector<GeneratedText>& texts, bool logprobs);

/// `{"scores":...,"segments":...,"text":...}`: the whole beam, best first.
/// Mirrors the same file: beam_search_and_post_process.
Result<std::string> beam_answer(const tokenizer::Tokenizer& tokenizer,
                                const std::vector<Beam>& beams);

/// `{"message":...}`, as flask_restful's errors and Megatron's text_generation_cli have it.
std::string error_answer(std::string_view message);

}  // namespace meg::serving
