#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/huggingface/internal/added_tokens.h"

namespace meg::tokenizer {

/// What tokenizer_config.json says, and special_tokens_map.json where that is silent.
struct TokenizerConfig {
  std::string tokenizer_class;  ///< such as "LlamaTokenizer"; empty: none

  /// The tokens of bos_token, eos_token, ... in the order in which transformers adds those that the
  /// tokenizer lacks; the ids are not set.
  std::vector<std::pair<std::string, AddedToken>> named_tokens;
  std::vector<AddedToken> extra_tokens;  ///< additional_special_tokens; ids not set

  /// added_tokens_decoder, by id.
  std::vector<AddedToken> added_tokens;

  /// Where either is given, the two decide what stands around a text.
  std::optional<bool> add_bos_token, add_eos_token;

  /// The token of a name such as "eos_token"; null where there is none.
  const AddedToken* named(std::string_view name) const;
};

/// Reads the files that are there; all of them may be missing. kCorruption, kUnsupported with file
/// and place.
/// Mirrors transformers 5, tokenization_utils_tokenizers.py: TokenizersBackend.__init__.
Result<TokenizerConfig> read_tokenizer_config(const std::string& folder);

}  // namespace meg::tokenizer
