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
/// prefetches these: the first 64 bytes, and of `wide` the next 64. Stops before a word of 16
/// bytes or more, or earlier. The words are [starts[i], starts[i + 1]) for i < count, as distances
/// from base; 64 bytes after the last one must be readable. Returns the number of words.
using PrefetchWords = size_t (*)(const char* base, const uint32_t* starts, size_t count,
                                 const SetTable& ascii, const SetTable& wide, WordKey<16>* keys,
                                 const void** sets);

/// Does it for all words, longer ones too, whose keys no word has. prefetch:
/// VectorFunctions::prefetch_words. prefetch_one(word, key): does it for one word, and returns
/// where its set begins; that of a longer word is never looked at.
template <class PrefetchOne>
inline void prefetch_all_words(PrefetchWords prefetch, const char* base, const uint32_t* starts,
                               size_t count, const SetTable& ascii, const SetTable& wide,
                               WordKey<16>* keys, const void** sets,
                               const PrefetchOne& prefetch_one) {
  constexpr size_t kAlone = 4;  // before `prefetch` goes on
  const size_t alone = prefetch == nullptr ? count : kAlone;
  for (size_t i = 0; i < count;) {
    if (prefetch != nullptr) {
      i += prefetch(base, starts + i, count - i, ascii, wide, &keys[i], &sets[i]);
    }
    const size_t stop = i + alone < count ? i + alone : count;
    for (uint32_t begin = starts[i]; i < stop; ++i) {
      const uint32_t end = starts[i + 1];
      const uint32_t length = end - begin < 16 ? end - begin : 16;
      keys[i] = WordKey<16>(base + begin, length);
      sets[i] = prefetch_one(std::string_view(base + begin, end - begin), keys[i]);
      begin = end;
    }
  }
}

}  // namespace meg::tokenizer::fast
