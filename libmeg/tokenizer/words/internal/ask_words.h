#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libmeg/tokenizer/words/internal/word_key.h"

namespace meg::tokenizer::fast {

/// A table of sets, of which the upper bits of a key's hash choose one.
struct SetTable {
  const void* begin;
  int shift;         // hash >> shift is below the table's bytes
  size_t set_bytes;  // a power of two
};

/// Makes the keys of words, finds their sets in `ascii` or `wide` (words with other characters) and
/// asks memory for these: the first 64 bytes, and of `wide` the next 64. Stops before a word of 16
/// bytes or more, or earlier. The words are [starts[i], starts[i + 1]) for i < count, as distances
/// from base; 64 bytes after the last one must be readable. Returns the number of words.
using AskWords = size_t (*)(const char* base, const uint32_t* starts, size_t count,
                            const SetTable& ascii, const SetTable& wide, WordKey<16>* keys,
                            const void** sets);

/// Does it for all words, longer ones too, whose keys no word has. ask: VectorFunctions::ask_words.
/// ask_one(word, key): does it for one word, and returns where its set begins; that of a longer
/// word is never looked at.
template <class AskOne>
inline void ask_all_words(AskWords ask, const char* base, const uint32_t* starts, size_t count,
                          const SetTable& ascii, const SetTable& wide, WordKey<16>* keys,
                          const void** sets, const AskOne& ask_one) {
  constexpr size_t kAskedAlone = 4;  // before `ask` goes on
  const size_t alone = ask == nullptr ? count : kAskedAlone;
  for (size_t i = 0; i < count;) {
    if (ask != nullptr) i += ask(base, starts + i, count - i, ascii, wide, &keys[i], &sets[i]);
    const size_t stop = i + alone < count ? i + alone : count;
    for (uint32_t begin = starts[i]; i < stop; ++i) {
      const uint32_t end = starts[i + 1];
      const uint32_t length = end - begin < 16 ? end - begin : 16;
      keys[i] = WordKey<16>(base + begin, length);
      sets[i] = ask_one(std::string_view(base + begin, end - begin), keys[i]);
      begin = end;
    }
  }
}

}  // namespace meg::tokenizer::fast
