#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libmeg/tokenizer/huggingface/internal/tokenizer_config.h"
#include "libmeg/tokenizer/huggingface/internal/tokenizer_json.h"

namespace meg::tokenizer {

/// transformers 4 takes a tokenizer.json as it is, and so does libmeg. transformers 5 gives some
/// classes a normalizer and a pre-tokenizer of its own: a warning where tokenizer_class is one of
/// these and what it would be given is not known to be what the file says.
/// name: the file's, for the text.
std::optional<std::string> check_tokenizer_class(const TokenizerJson& file,
                                                 const TokenizerConfig& config,
                                                 const std::string& name);

/// The class of these that transformers 5 has for a model_type of a config.json, where no file
/// names one; empty if it has none of them.
std::string_view tokenizer_class_of_model(std::string_view model_type);

}  // namespace meg::tokenizer
