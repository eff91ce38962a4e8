#pragma once

#include <cstddef>
#include <string_view>

#include "libmeg/tokenizer/models/internal/piece_trie.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/charsmap.h"

namespace meg::tokenizer::sentencepiece {

/// User-defined symbols that a text begins with: the library looks at the shortest of them.
inline constexpr int kMaxSymbolMatches = 64;

/// The first bytes of a text that are normalized together, and their replacement.
struct NormalizingStep {
  size_t size;
  std::string_view normalized;  ///< Lives as long as the text and the charsmap.
};

/// The step at the start of a text that is not empty: a user-defined symbol stays as it is, else
/// the longest rule holds, else a character stays; a byte that is none (a rule may end within a
/// character) becomes U+FFFD.
NormalizingStep first_step(const Charsmap& charsmap, const PieceTrie& user_symbols,
                           std::string_view text);

}  // namespace meg::tokenizer::sentencepiece
