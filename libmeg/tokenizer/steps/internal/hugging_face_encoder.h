#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/steps/internal/added_tokens.h"
#include "libmeg/tokenizer/steps/internal/normalizer.h"
#include "libmeg/tokenizer/steps/internal/pre_tokenizer.h"

namespace meg::tokenizer {

/// Encodes a text: separates added tokens, normalizes the rest, separates added tokens of the
/// normalized text, splits what remains and passes it to `words`.
/// Mirrors Hugging Face tokenizers, tokenizer/mod.rs: TokenizerImpl.encode.
class HuggingFaceEncoder : public TokenEncoder {
 public:
  struct Parts {
    std::span<const int32_t> prefix, suffix;
    const AddedTokenFinder& in_text;
    const Normalizer* normalizer;  // or null
    const AddedTokenFinder& in_normalized;
    const PreTokenizer& pre_tokenizer;
    bool skips_steps = false;  // of pre_tokenizer, as the words' encoder finds what they find
  };

  HuggingFaceEncoder(const Parts& parts, std::unique_ptr<TokenEncoder> words)
      : parts_(parts), words_(std::move(words)) {}

  Status encode(std::string_view text, TokenBuffer& tokens) override;

 private:
  /// front: bytes of the text's first character; 0 for a part that does not begin with it.
  Status encode_segment(std::string_view text, size_t front, TokenBuffer& tokens);
  /// front_end: the end of what the text's first character has become.
  Status split(std::string_view text, size_t step, const char* front_end, TokenBuffer& tokens);
  Status encode_spaced(std::string_view text, TokenBuffer& tokens);
  /// is_first: whether the part begins where the text does, as it was before it was normalized.
  Status encode_metaspaced(std::string_view text, bool is_first, TokenBuffer& tokens);
  Status split_spaced(std::string_view text, size_t step, TokenBuffer& tokens);

  const Parts parts_;
  const std::unique_ptr<TokenEncoder> words_;
  std::string normalized_;  // padded
  std::string spaced_;      // padded
};

}  // namespace meg::tokenizer
