#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/steps/internal/added_tokens.h"

namespace meg::tokenizer {

/// The content of tokenizer_config.json and, unless it lists the added tokens, of
/// special_tokens_map.json, which takes precedence; of config.json, which model it is.
struct TokenizerConfig {
  std::string tokenizer_class;  ///< choose_tokenizer_class()'s, such as "LlamaTokenizer"

  /// The tokens of bos_token, eos_token, ... in the order in which transformers adds those that the
  /// tokenizer lacks, followed by tokens under names of the model's own (image_token). Ids are not
  /// set.
  std::vector<std::pair<std::string, AddedToken>> named_tokens;
  std::vector<std::string> null_tokens;  ///< Names that are null, whatever the default is.
  std::vector<AddedToken> extra_tokens;  ///< additional_special_tokens; ids not set
  bool lists_extra_tokens = false;       ///< Whether a list of them is there, or null.

  /// added_tokens_decoder, by id.
  std::vector<AddedToken> added_tokens;
  bool lists_added_tokens = false;  ///< Whether it is there.

  /// Not followed, as a tokenizer.json has its post-processor; for a warning.
  std::optional<bool> add_bos_token, add_eos_token;

  /// Not followed, as core 0.15 and newer do not; for a warning.
  bool cleans_up_spaces = false, cleans_up_bpe_spaces = false;

  bool splits_special_tokens = false;  ///< Special tokens in texts are ordinary characters.

  /// fix_mistral_regex of a Mistral model: a vocabulary of more than kMistralVocabSize tokens is
  /// cut by the pattern of Mistral's own package, whatever the tokenizer.json says.
  bool fixes_mistral_pattern = false;

  static constexpr int64_t kMistralVocabSize = 100000;

  /// Sets the token of a name, replacing an earlier one.
  void name_token(std::string_view name, AddedToken token);

  /// Sets the token of a name that the files do not mention; text: empty for none.
  void name_default_token(std::string_view name, std::string_view text);

  /// The token of a name such as "eos_token"; null if there is none.
  const AddedToken* named(std::string_view name) const;
};

/// Reads the files that are there; all of them may be missing. kCorruption, kUnsupported with file
/// and place.
/// Mirrors transformers 5, tokenization_utils_tokenizers.py: TokenizersBackend.__init__.
Result<TokenizerConfig> read_tokenizer_config(const std::string& folder);

}  // namespace meg::tokenizer
