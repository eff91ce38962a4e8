#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/json/internal/json_part.h"

namespace meg::tokenizer {

/// The part "decoder" of a tokenizer.json: turns tokens, as the vocabulary writes them, to text.
/// Mirrors Hugging Face tokenizers, decoders/.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;

  /// What may follow the tokens passed to apply().
  enum class Following {
    kNothing,
    kTokens,
    kText,  ///< more of the last token, and further ones
  };

  /// Changes the tokens, whose concatenation is the decoded text. If something follows, omits the
  /// part that depends on it, so that the rest stays the same whatever follows.
  virtual Status apply(std::vector<std::string>& tokens, Following& following) const = 0;

  /// Whether the text consists of the bytes that the tokens' characters stand for.
  virtual bool is_byte_level() const { return false; }
};

/// part: null for a file without decoder, whose tokens are joined by spaces.
/// kUnsupported, by name, for a kind that libmeg lacks.
Result<std::unique_ptr<TokenDecoder>> read_decoder(const std::optional<JsonPart>& part);

}  // namespace meg::tokenizer
