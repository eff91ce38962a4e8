#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libmeg/tokenizer/words/internal/word_key.h"

namespace meg::tokenizer::fast {

/// Two ids as one number, which orders as they do.
inline uint64_t pair_key(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

/// Counts of pairs: open addressing, a power of two of slots.
class PairCounts {
 public:
  /// The count of a pair, 0 if it is new; valid until the next call.
  int64_t& operator[](uint64_t key) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[slot_of(key)];
    if (slot.key == kFree) {
      slot.key = key;
      ++used_;
    }
    return slot.count;
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};  // no pair: ids are below 2^31

  struct Slot {
    uint64_t key = kFree;
    int64_t count = 0;
  };

  size_t slot_of(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = mix(key, key >> 32) & mask;
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != kFree) slots_[slot_of(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_{size_t{1} << 16};
  size_t used_ = 0;
};

}  // namespace meg::tokenizer::fast
