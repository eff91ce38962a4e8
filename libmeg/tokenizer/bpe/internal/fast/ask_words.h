#pragma once

#include <cstddef>
#include <cstdint>

#include "libmeg/base/cpu.h"
#include "libmeg/tokenizer/bpe/internal/fast/word_key.h"

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

size_t ask_words_avx512(const char* base, const uint32_t* starts, size_t count,
                        const SetTable& ascii, const SetTable& wide, WordKey<16>* keys,
                        const void** sets);

/// nullptr where one word at a time is the fastest way.
AskWords words_asker(InstructionSet set);

}  // namespace meg::tokenizer::fast
