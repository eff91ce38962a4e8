#pragma once

#include "libmeg/base/cpu.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/fast/plain_characters.h"

namespace meg::tokenizer::sentencepiece::fast {

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

void copy_plain_portable(const PlainCharacters& plain, const char* end, bool collapses,
                         NormalizingPlace& place);
void copy_plain_avx2(const PlainCharacters& plain, const char* end, bool collapses,
                     NormalizingPlace& place);
void copy_plain_avx512(const PlainCharacters& plain, const char* end, bool collapses,
                       NormalizingPlace& place);

/// On processors other than x86-64 always the portable one.
CopyPlain plain_copier(InstructionSet set);

}  // namespace meg::tokenizer::sentencepiece::fast
