#include "libmeg/tokenizer/models/internal/sentencepiece/normalizing_step.h"

#include <optional>

#include "libmeg/text/utf8.h"

namespace meg::tokenizer::sentencepiece {

NormalizingStep first_step(const Charsmap& charsmap, const PieceTrie& user_symbols,
                           std::string_view text) {
  const size_t symbol = user_symbols.longest_prefix(text, kMaxSymbolMatches);
  if (symbol > 0) return {symbol, text.substr(0, symbol)};
  // Symbols first: what a user has defined is never normalized.
  if (const std::optional<Charsmap::Match> match = charsmap.find(text)) {
    return {match->size, match->replacement};
  }
  const text::DecodedCodePoint character = text::decode_code_point(text);
  // One for each byte, as the library has it; Python's decoder would write fewer.
  if (character.code_point == text::kInvalidCodePoint) return {1, "\xEF\xBF\xBD"};
  return {character.size, text.substr(0, character.size)};
}

}  // namespace meg::tokenizer::sentencepiece
