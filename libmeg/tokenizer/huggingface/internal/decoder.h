#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/huggingface/internal/json_part.h"

namespace meg::tokenizer {

/// The part "decoder" of a tokenizer.json: turns tokens, as the vocabulary writes them, to text.
/// Mirrors Hugging Face tokenizers, decoders/.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;

  /// What may come behind the tokens that apply() is given.
  enum class Following {
    kNothing,
    kTokens,
    kText,  ///< more of the last token, and further ones
  };

  /// Changes the tokens; the decoded text is what they are together. Where something follows, what
  /// depends on that is left out, and the rest stays whatever it is.
  virtual void apply(std::vector<std::string>& tokens, Following& following) const = 0;

  /// Whether the text is that of the bytes that the tokens' characters stand for.
  virtual bool is_byte_level() const { return false; }
};

/// part: null for a file without decoder, whose tokens are joined by spaces.
/// kUnsupported, by name, for a kind that libmeg lacks.
Result<std::unique_ptr<TokenDecoder>> read_decoder(const std::optional<JsonPart>& part);

}  // namespace meg::tokenizer
