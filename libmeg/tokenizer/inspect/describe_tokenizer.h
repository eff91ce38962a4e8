#pragma once

#include <cstdint>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"

namespace meg::tokenizer {

/// A human-readable description of a tokenizer.
struct TokenizerDescription {
  std::string model;       ///< How words become tokens.
  std::string pattern;     ///< What splits texts into words.
  std::string normalizer;  ///< What normalizes texts before that; "none" if nothing does.
};

/// Describes a tokenizer that open_tokenizer() opens. Errors: those of open_tokenizer().
Result<TokenizerDescription> describe_tokenizer(const TokenizerOptions& options);

/// The number of distinct tokens in a vocab.json. kCorruption if it is not such a file; otherwise
/// the errors of opening it.
Result<int64_t> count_tokens(const std::string& vocab_file);

}  // namespace meg::tokenizer
