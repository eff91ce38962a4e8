#pragma once

#include <string>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/steps/internal/pre_tokenizer.h"

namespace meg::tokenizer {

/// Whether GPT2BPETokenizer cuts texts by the pattern.
bool is_gpt2_pattern(const std::string& pattern);

/// The part "pre_tokenizer" of a tokenizer.json that splits texts by a pattern of
/// BpeTrainerOptions, with all lines but the first indented by two spaces.
Result<std::string> pre_tokenizer_json(const std::string& pattern);

/// What that part means.
Result<PreTokenizer> training_pre_tokenizer(const std::string& pattern);

}  // namespace meg::tokenizer
