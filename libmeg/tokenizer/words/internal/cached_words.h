#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "libmeg/tokenizer/words/internal/word_caches.h"

namespace meg::tokenizer::fast {

/// Caches the ids of words, for models in which a word's ids depend on the word alone, at most one
/// id per byte. For use by one thread.
template <class Id>
class CachedWords {
  using Caches = WordCaches<Id>;

 public:
  /// Ids that encode() may write after those of the word.
  static constexpr size_t kCopyRoom = Caches::kMaxIds;

  /// Writes the ids of a word to `out` and returns the place for the next ones. word: must have 32
  /// readable bytes after it. segment(word, out): does the same for an unknown word, or returns
  /// nullptr, which is then returned, if it has no ids.
  template <class Segment>
  Id* encode(std::string_view word, Id* out, const Segment& segment) {
    if (word.size() >= Caches::kMediumBytes) return encode_long(word, out, segment);
    return caches_.use_first(word,
                             [&](auto& cache) { return encode_with(cache, word, out, segment); });
  }

 private:
  // Of longer words fewer are met again, and they push others out.
  static constexpr size_t kMaxCachedBytes = 256;

  template <class Cache, class Segment>
  Id* encode_with(Cache& cache, std::string_view word, Id* out, const Segment& segment) {
    const typename Cache::Key key(word.data(), word.size());
    const uint64_t hash = key.hash();
    const typename Cache::Entry* const entry = cache.find(key, hash);
    if (entry != nullptr && !entry->has_ids()) {
      return encode_with(caches_.after(cache), word, out, segment);
    }
    if (entry != nullptr) {
      std::memcpy(out, entry->ids.data(), sizeof(entry->ids));
      return out + entry->count;
    }
    Id* const end = segment(word, out);
    if (end != nullptr) caches_.learn(word, {out, end});
    return end;
  }

  template <class Segment>
  Id* encode_with(typename Caches::Long&, std::string_view word, Id* out, const Segment& segment) {
    return encode_long(word, out, segment);
  }

  template <class Segment>
  Id* encode_long(std::string_view word, Id* out, const Segment& segment) {
    if (word.size() > kMaxCachedBytes) return segment(word, out);
    const uint64_t hash = hash_word(word);
    const std::span<const Id> known = caches_.longest().find(word, hash);
    if (!known.empty()) return std::copy(known.begin(), known.end(), out);
    Id* const end = segment(word, out);
    if (end != nullptr) caches_.longest().insert(word, hash, {out, end});
    return end;
  }

  Caches caches_;
};

}  // namespace meg::tokenizer::fast
