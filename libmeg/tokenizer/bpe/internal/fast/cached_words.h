#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "libmeg/tokenizer/bpe/internal/fast/word_cache.h"

namespace meg::tokenizer::fast {

/// Caches the ids of words, for models in which a word's ids depend on the word alone, at most one
/// id per byte. For use by one thread.
template <class Id>
class CachedWords {
  // Words below 16 bytes: those of ASCII, most of which give one id or two, and the others, with
  // room for more. Words below 32 bytes, with room for 15 or 23.
  using AsciiCache = WordCache<Id, 16, 32, size_t{1} << 18>;
  using WideCache = WordCache<Id, 16, 64, size_t{1} << 17>;
  using MediumCache = WordCache<Id, 32, 32 * sizeof(Id), size_t{1} << 16>;

 public:
  /// Ids that encode() may write after those of the word.
  static constexpr size_t kCopyRoom = std::max(WideCache::kMaxIds, MediumCache::kMaxIds);

  /// Writes the ids of a word to `out` and returns the place for the next ones. word: must have 32
  /// readable bytes after it. segment(word, out): does the same for an unknown word, or returns
  /// nullptr, which is then returned, if it has no ids.
  template <class Segment>
  Id* encode(std::string_view word, Id* out, const Segment& segment) {
    if (word.size() < 16) {
      return WordKey<16>(word.data(), word.size()).is_ascii()
                 ? encode_with(ascii_, word, out, segment)
                 : encode_with(wide_, word, out, segment);
    }
    if (word.size() < 32) return encode_with(medium_, word, out, segment);
    return encode_long(word, out, segment);
  }

 private:
  // Of longer words fewer are met again, and they push others out.
  static constexpr size_t kMaxCachedBytes = 256;

  template <class Cache, class Segment>
  Id* encode_with(Cache& cache, std::string_view word, Id* out, const Segment& segment) {
    const typename Cache::Key key(word.data(), word.size());
    const uint64_t hash = key.hash();
    const typename Cache::Entry* const entry = cache.find(key, hash);
    if (entry != nullptr && !entry->has_ids()) return encode_long(word, out, segment);
    if (entry != nullptr) {
      std::memcpy(out, entry->ids.data(), sizeof(entry->ids));
      return out + entry->count;
    }
    Id* const end = segment(word, out);
    if (end != nullptr && !cache.insert(key, hash, {out, end})) {
      long_.insert(word, hash_word(word), {out, end});
    }
    return end;
  }

  template <class Segment>
  Id* encode_long(std::string_view word, Id* out, const Segment& segment) {
    if (word.size() > kMaxCachedBytes) return segment(word, out);
    const uint64_t hash = hash_word(word);
    const std::span<const Id> known = long_.find(word, hash);
    if (!known.empty()) return std::copy(known.begin(), known.end(), out);
    Id* const end = segment(word, out);
    if (end != nullptr) long_.insert(word, hash, {out, end});
    return end;
  }

  AsciiCache ascii_;
  WideCache wide_;
  MediumCache medium_;
  LongWordCache<Id> long_;
};

}  // namespace meg::tokenizer::fast
