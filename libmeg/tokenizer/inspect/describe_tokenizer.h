#pragma once

#include <string>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/open_tokenizer.h"

namespace meg::tokenizer {

/// A human-readable description of a tokenizer.
struct TokenizerDescription {
  std::string model;       ///< How words become tokens.
  std::string pattern;     ///< What splits texts into words.
  std::string normalizer;  ///< What normalizes texts before that; "none" if nothing does.
};

/// Describes a tokenizer that open_tokenizer() opens. Errors: those of open_tokenizer().
Result<TokenizerDescription> describe_tokenizer(const TokenizerOptions& options);

}  // namespace meg::tokenizer
