#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "libmeg/tokenizer/bpe/internal/fast/word_cache.h"

namespace meg::tokenizer::fast {

/// The ids of words that were met before, for models that give a word its ids for itself, at most
/// one a byte. Belongs to one thread.
template <class Id>
class CachedWords {
 public:
  /// Ids that encode() may write behind those of the word.
  static constexpr size_t kCopyRoom = WordCache<Id, 32, 64>::kMaxIds;

  /// Writes the ids of a word to `out` and returns where the next ones go. word: has 32 readable
  /// bytes behind it. segment(word, out): does the same for a word that is not known; nullptr, also
  /// from here, where it has no ids.
  template <class Segment>
  Id* encode(std::string_view word, Id* out, const Segment& segment) {
    if (word.size() < 16) return encode_with(short_, word, out, segment);
    if (word.size() < 32) return encode_with(medium_, word, out, segment);
    return segment(word, out);
  }

 private:
  static constexpr size_t kShortSets = size_t{1} << 16;
  static constexpr size_t kMediumSets = size_t{1} << 14;

  template <class Cache, class Segment>
  static Id* encode_with(Cache& cache, std::string_view word, Id* out, const Segment& segment) {
    const typename Cache::Key key(word.data(), word.size());
    const uint64_t hash = key.hash();
    const typename Cache::Entry* const entry = cache.find(key, hash);
    if (entry != nullptr && entry->has_ids()) {
      std::memcpy(out, entry->ids.data(), sizeof(entry->ids));
      return out + entry->count;
    }
    Id* const end = segment(word, out);
    if (entry == nullptr && end != nullptr) cache.insert(key, hash, {out, end});
    return end;
  }

  WordCache<Id, 16, 32> short_{kShortSets};
  WordCache<Id, 32, 64> medium_{kMediumSets};
};

}  // namespace meg::tokenizer::fast
