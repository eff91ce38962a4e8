#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "libmeg/tokenizer/words/internal/word_cache.h"

namespace meg::tokenizer::fast {

/// The caches of an encoder's words, by their bytes and by how many ids there is room for: a word
/// of too many ids for one is remembered as such, and is in the next one. For use by one thread.
template <class Id>
class WordCaches {
 public:
  /// Words below 16 bytes: those of ASCII, most of which give one id or two, and the others.
  using Ascii = WordCache<Id, 16, 32, size_t{1} << 18>;
  using Wide = WordCache<Id, 16, 64, size_t{1} << 18>;

  /// Words below kMediumBytes, with few ids and with more.
  using Medium = WordCache<Id, 32, 64, size_t{1} << 16>;
  using Many = WordCache<Id, 32, 128, size_t{1} << 15>;

  using Long = LongWordCache<Id>;

  static constexpr size_t kShortBytes = 16;
  static constexpr size_t kMediumBytes = 32;

  /// Ids of the largest entry.
  static constexpr size_t kMaxIds = std::max(Wide::kMaxIds, Many::kMaxIds);

  /// Calls use(cache) for the one in which a word below kMediumBytes is looked for first.
  template <class Use>
  auto use_first(std::string_view word, const Use& use) {
    if (word.size() >= kShortBytes) return use(medium_);
    return WordKey<16>(word.data(), word.size()).is_ascii() ? use(ascii_) : use(wide_);
  }

  // The cache for words of too many ids for an entry of another one.

  Wide& after(const Ascii&) { return wide_; }

  Long& after(const Wide&) { return long_; }

  Many& after(const Medium&) { return many_; }

  Long& after(const Many&) { return long_; }

  Long& longest() { return long_; }

  /// Remembers the ids of a word below kMediumBytes.
  void learn(std::string_view word, std::span<const Id> ids) {
    use_first(word, [&](auto& cache) { learn_in(cache, word, ids); });
  }

  /// Prefetches the set of a word below kMediumBytes. Returns where it begins, for a word
  /// below kShortBytes; for a longer one, a set that has no entry with `key`: entries of other
  /// caches have other keys, of which a part may look like it.
  const void* prefetch(std::string_view word, const WordKey<16>& key) const {
    if (word.size() >= kShortBytes) {
      const bool is_medium = word.size() < kMediumBytes;
      if (is_medium) medium_.prefetch(typename Medium::Key(word.data(), word.size()).hash());
      return ascii_.first_place(0);
    }
    return key.is_ascii() ? ascii_.prefetch(key.hash()) : wide_.prefetch(key.hash());
  }

  /// For PrefetchWords.
  SetTable ascii_table() const { return ascii_.set_table(); }

  SetTable wide_table() const { return wide_.set_table(); }

 private:
  template <class Cache>
  void learn_in(Cache& cache, std::string_view word, std::span<const Id> ids) {
    const typename Cache::Key key(word.data(), word.size());
    if (!cache.insert(key, key.hash(), ids)) learn_in(after(cache), word, ids);
  }

  void learn_in(Long& cache, std::string_view word, std::span<const Id> ids) {
    cache.insert(word, hash_word(word), ids);
  }

  Ascii ascii_;
  Wide wide_;
  Medium medium_;
  Many many_;
  Long long_;
};

}  // namespace meg::tokenizer::fast
