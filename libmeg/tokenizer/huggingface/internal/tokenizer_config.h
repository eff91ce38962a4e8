#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/huggingface/internal/added_tokens.h"

namespace meg::tokenizer {

/// What tokenizer_config.json says, and where it does not list the added tokens,
/// special_tokens_map.json, which goes before it.
struct TokenizerConfig {
  std::string tokenizer_class;  ///< such as "LlamaTokenizer"; empty: none

  /// The tokens of bos_token, eos_token, ... in the order in which transformers adds those that the
  /// tokenizer lacks; behind them tokens of the model's own names (image_token). Ids are not set.
  std::vector<std::pair<std::string, AddedToken>> named_tokens;
  bool has_no_pad_token = false;         ///< `"pad_token": null`, whatever the tokenizer.json says
  std::vector<AddedToken> extra_tokens;  ///< additional_special_tokens; ids not set
  bool lists_extra_tokens = false;       ///< Whether a list of them is there, or null.

  /// added_tokens_decoder, by id.
  std::vector<AddedToken> added_tokens;
  bool lists_added_tokens = false;  ///< Whether it is there.

  /// Not followed, as a tokenizer.json has its post-processor; for a warning.
  std::optional<bool> add_bos_token, add_eos_token;

  /// What is said of a name goes before what was said earlier.
  void name_token(std::string_view name, AddedToken token);

  /// The token of a name such as "eos_token"; null where there is none.
  const AddedToken* named(std::string_view name) const;
};

/// Reads the files that are there; all of them may be missing. kCorruption, kUnsupported with file
/// and place.
/// Mirrors transformers 5, tokenization_utils_tokenizers.py: TokenizersBackend.__init__.
Result<TokenizerConfig> read_tokenizer_config(const std::string& folder);

}  // namespace meg::tokenizer
