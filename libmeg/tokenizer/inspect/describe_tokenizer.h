#pragma once

#include <string>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/open_tokenizer.h"

namespace meg::tokenizer {

/// What a tokenizer is made of, for people.
struct TokenizerDescription {
  std::string model;       ///< How words become tokens.
  std::string pattern;     ///< What cuts texts into words.
  std::string normalizer;  ///< What changes texts before; "none" where nothing does.
};

/// Of a tokenizer that open_tokenizer opens. Errors: open_tokenizer's.
Result<TokenizerDescription> describe_tokenizer(const TokenizerOptions& options);

}  // namespace meg::tokenizer
