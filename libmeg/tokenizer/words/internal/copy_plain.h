#pragma once

#include "libmeg/tokenizer/words/internal/plain_characters.h"

namespace meg::tokenizer::fast {

/// Where normalizing is in a text and in what it makes of it.
struct NormalizingPlace {
  const char* at;
  char* out;
  bool after_space;  // what `out` follows; only where extra spaces are removed
};

/// Normalizes characters that stay as they are, and those that become a space, up to the first one
/// that has to be looked up. 64 bytes from `end` on must be readable, and as many must fit behind
/// those that are copied. collapses: leaves out spaces that follow another one.
using CopyPlain = void (*)(const PlainCharacters& plain, const char* end, bool collapses,
                           NormalizingPlace& place);

}  // namespace meg::tokenizer::fast
