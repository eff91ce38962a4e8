#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libmeg/tokenizer/files/internal/huggingface/tokenizer_config.h"
#include "libmeg/tokenizer/files/internal/huggingface/tokenizer_json.h"

namespace meg::tokenizer {

/// transformers 4 takes a tokenizer.json as it is, and so does libmeg. transformers 5 gives some
/// classes a normalizer and a pre-tokenizer of its own: a warning where tokenizer_class is one of
/// these and what it would be given is not known to be what the file says.
/// name: the file's, for the text.
std::optional<std::string> check_tokenizer_class(const TokenizerJson& file,
                                                 const TokenizerConfig& config,
                                                 const std::string& name);

/// The class that transformers 5 takes. named: by tokenizer_config.json or, without one there, by
/// config.json; empty: by none. model_type: of config.json; empty: there is none.
/// Mirrors transformers 5, models/auto/tokenization_auto.py: AutoTokenizer.from_pretrained().
std::string choose_tokenizer_class(std::string_view named, std::string_view model_type);

/// Names the tokens that the class has where neither a file names them nor says that there is none,
/// such as <|endoftext|>.
/// Mirrors transformers 5, models/*/tokenization_*.py: __init__.
void name_default_tokens(const TokenizerJson& file, TokenizerConfig& config);

}  // namespace meg::tokenizer
