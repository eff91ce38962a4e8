#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "libmeg/tokenizer/bpe/internal/fast/word_cache.h"

namespace meg::tokenizer::fast {

/// Caches the ids of words, for models in which a word's ids depend on the word alone, at most one
/// id per byte. For use by one thread.
template <class Id>
class CachedWords {
  using MediumCache = WordCache<Id, 32, 64, size_t{1} << 14>;

 public:
  /// Ids that encode() may write after those of the word.
  static constexpr size_t kCopyRoom = MediumCache::kMaxIds;

  /// Writes the ids of a word to `out` and returns the place for the next ones. word: must have 32
  /// readable bytes after it. segment(word, out): does the same for an unknown word, or returns
  /// nullptr, which is then returned, if it has no ids.
  template <class Segment>
  Id* encode(std::string_view word, Id* out, const Segment& segment) {
    if (word.size() < 16) return encode_with(short_, word, out, segment);
    if (word.size() < 32) return encode_with(medium_, word, out, segment);
    return segment(word, out);
  }

 private:
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

  WordCache<Id, 16, 32, size_t{1} << 16> short_;
  MediumCache medium_;
};

}  // namespace meg::tokenizer::fast
