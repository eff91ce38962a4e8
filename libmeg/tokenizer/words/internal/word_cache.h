#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/huge_array.h"
#include "libmeg/tokenizer/words/internal/prefetch_words.h"
#include "libmeg/tokenizer/words/internal/word_key.h"

namespace meg::tokenizer::fast {

/// A bounded map from words of fewer than kKeyBytes bytes to their ids, which live inside the
/// entry. kSets sets, a power of two from 2 on, of two entries each; the one used longer ago makes
/// room.
template <class Id, size_t kKeyBytes, size_t kEntryBytes, size_t kSets>
class WordCache {
 public:
  using Key = WordKey<kKeyBytes>;

  static constexpr size_t kMaxIds = (kEntryBytes - kKeyBytes) / sizeof(Id) - 1;
  static constexpr size_t kAwaited = 256;  // added to the numbers of words that await ids

  // May alias: the encoder reads entries of 32 and of 64 bytes, which begin alike, through one
  // type.
  struct [[gnu::may_alias]] Entry {
    Key key;   // a free entry's is all zeros, which no word of one byte or more has
    Id count;  // of ids; above kMaxIds where the word is known to have more ids than fit
    std::array<Id, kMaxIds> ids;

    bool has_ids() const { return static_cast<size_t>(count) <= kMaxIds; }

    /// Whether the word waits for its ids, and the number that await() gave it.
    bool is_awaited() const { return static_cast<size_t>(count) >= kAwaited; }

    size_t awaited() const { return static_cast<size_t>(count) - kAwaited; }
  };

  static_assert(sizeof(Entry) == kEntryBytes);

  /// Where find(key, hash) looks first.
  const Entry* first_place(uint64_t hash) const { return &sets_[set_of(hash)].front(); }

  /// Prefetches a set: all of the first entry, and the line of the second. Returns where it
  /// begins.
  const void* prefetch(uint64_t hash) const {
    const Entry* const place = first_place(hash);
    __builtin_prefetch(place);
    if constexpr (sizeof(Set) > 64) __builtin_prefetch(place + 1);
    return place;
  }

  /// The same for PrefetchWords.
  SetTable set_table() const {
    return {&sets_[0], std::countl_zero(kSets * sizeof(Set)) + 1, sizeof(Set)};
  }

  /// The entry of a word, or nullptr. Valid until the next call.
  const Entry* find(const Key& key, uint64_t hash) {
    Set& set = sets_[set_of(hash)];
    if (set[0].key == key) return &set[0];
    if (set[1].key == key) {
      std::swap(set[0], set[1]);
      return &set[0];
    }
    return nullptr;
  }

  /// Stores the ids, or only the fact that they are too many. Returns whether they fit.
  bool insert(const Key& key, uint64_t hash, std::span<const Id> ids) {
    Entry& entry = entry_for(key, hash);
    entry.count = static_cast<Id>(std::min(ids.size(), kMaxIds + 1));
    std::copy_n(ids.begin(), std::min(ids.size(), kMaxIds), entry.ids.begin());
    return entry.has_ids();
  }

  /// Stores the number of a word whose ids are added later, by insert().
  void await(const Key& key, uint64_t hash, size_t number) {
    entry_for(key, hash).count = static_cast<Id>(kAwaited + number);
  }

  /// Remembers that the word is one whose ids are not kept.
  void insert_without_ids(const Key& key, uint64_t hash) {
    entry_for(key, hash).count = static_cast<Id>(kMaxIds + 1);
  }

 private:
  using Set = std::array<Entry, 2>;

  static_assert(kAwaited > kMaxIds + 1);
  static_assert(std::has_single_bit(kSets) && kSets > 1);

  static size_t set_of(uint64_t hash) { return hash >> (std::countl_zero(kSets) + 1); }

  /// The word's entry: the one that it has, or the set's first.
  Entry& entry_for(const Key& key, uint64_t hash) {
    Set& set = sets_[set_of(hash)];
    for (Entry& entry : set) {
      if (entry.key == key) return entry;
    }
    set[1] = set[0];
    set[0].key = key;
    return set[0];
  }

  HugeArray<Set> sets_{kSets};
};

/// The same for words of any length and number of ids, with slower lookups. When its memory is
/// full, it discards everything.
template <class Id>
class LongWordCache {
 public:
  static constexpr size_t kStoreBytes = size_t{4} << 20;

  explicit LongWordCache(size_t slots = size_t{1} << 16, size_t store_bytes = kStoreBytes)
      : slots_(slots), words_limit_(store_bytes), ids_limit_(store_bytes / sizeof(Id)) {}

  /// The ids of a word; empty if it is unknown. Valid until the next insert.
  std::span<const Id> find(std::string_view word, uint64_t hash) const {
    const Slot& slot = slots_[hash & (slots_.size() - 1)];
    if (slot.hash != hash || word != std::string_view(words_).substr(slot.word, slot.length))
      return {};
    return std::span<const Id>(ids_).subspan(slot.ids, slot.count);
  }

  void insert(std::string_view word, uint64_t hash, std::span<const Id> ids) {
    if (words_.size() + word.size() > words_limit_ || ids_.size() + ids.size() > ids_limit_)
      clear();
    slots_[hash & (slots_.size() - 1)] = {
        hash, static_cast<uint32_t>(words_.size()), static_cast<uint32_t>(word.size()),
        static_cast<uint32_t>(ids_.size()), static_cast<uint32_t>(ids.size())};
    words_.append(word);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t word = 0, length = 0;  // in words_
    uint32_t ids = 0, count = 0;    // in ids_
  };

  void clear() {
    slots_.assign(slots_.size(), Slot{});
    words_.clear();
    ids_.clear();
  }

  std::vector<Slot> slots_;  // a power of two
  std::string words_;
  std::vector<Id> ids_;
  size_t words_limit_, ids_limit_;
};

}  // namespace meg::tokenizer::fast
