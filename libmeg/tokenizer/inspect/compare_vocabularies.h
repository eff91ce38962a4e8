#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::tokenizer {

/// A token that one vocabulary has and another has not, or not with that id.
struct TokenDifference {
  std::string bytes;
  int32_t id = -1;        ///< In the first vocabulary; -1 if it is not there.
  int32_t other_id = -1;  ///< In the second.
};

/// How the tokens of two vocabularies differ, by the bytes that they decode to.
struct VocabularyDifferences {
  int64_t equal = 0;  ///< Tokens with the same bytes and id.

  // The lists are sorted by id, by that of the first vocabulary where the token is there.
  std::vector<TokenDifference> only_here, only_there, moved;
};

/// A token whose bytes another one has too counts for the lower id.
VocabularyDifferences compare_vocabularies(const Tokenizer& here, const Tokenizer& there);

}  // namespace meg::tokenizer
