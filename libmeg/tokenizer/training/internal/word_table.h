#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/training/internal/word_runs.h"
#include "libmeg/tokenizer/words/internal/word_key.h"

namespace meg::tokenizer {

/// Counts words: open addressing, short words within their slots.
class WordTable {
 public:
  using ShortKey = fast::WordKey<kLongWord>;

  /// Makes room for `count` further words, so that first_place() stays right while they are added.
  void reserve(size_t count);

  /// Where the search for a word of this hash begins, to be prefetched.
  const void* first_place(uint64_t hash) const { return &short_[place_of(hash, short_.size())]; }

  /// Where the search begins among `slots`, a power of two from 2 on: hashes of keys are mixed in
  /// their upper bits.
  static size_t place_of(uint64_t hash, size_t slots) {
    return hash >> (std::countl_zero(slots) + 1);
  }

  /// key: of a word shorter than kLongWord; hash: its own. There must be room.
  void add_short(const ShortKey& key, uint64_t hash);

  /// word: of kLongWord bytes or more. There must be room.
  void add_long(std::string_view word);

  /// Bytes that the words take.
  size_t memory() const;

  /// Moves the words into a run, which leaves the table empty.
  std::unique_ptr<WordRun> take_run();

 private:
  struct ShortSlot {
    ShortKey key;
    int64_t count;  // 0 where the slot is free
  };

  struct LongSlot {
    uint64_t hash;
    int64_t count;  // 0 where the slot is free
    size_t begin;   // in long_bytes_
    size_t length;
  };

  class Run;

  std::vector<ShortSlot> short_ = std::vector<ShortSlot>(kFirstSlots);
  std::vector<LongSlot> long_ = std::vector<LongSlot>(kFirstSlots);
  size_t short_count_ = 0;
  size_t long_count_ = 0;
  std::string long_bytes_;

  static constexpr size_t kFirstSlots = size_t{1} << 10;
};

}  // namespace meg::tokenizer
