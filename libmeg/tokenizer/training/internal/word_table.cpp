#include "libmeg/tokenizer/training/internal/word_table.h"

#include <algorithm>
#include <utility>

namespace meg::tokenizer {
namespace {

/// The first free slot on the way from where `hash` points, or the one that `is_it` says.
template <class Slot, class IsIt>
Slot& find_slot(std::vector<Slot>& slots, uint64_t hash, const IsIt& is_it) {
  const size_t mask = slots.size() - 1;
  size_t at = WordTable::place_of(hash, slots.size());
  while (slots[at].count != 0 && !is_it(slots[at])) at = (at + 1) & mask;
  return slots[at];
}

/// Doubles the slots until half of them are free with `count` words more.
template <class Slot, class HashOf>
void make_room(std::vector<Slot>& slots, size_t count, const HashOf& hash_of) {
  size_t size = slots.size();
  while (size < 2 * count) size *= 2;
  if (size == slots.size()) return;
  std::vector<Slot> old(size);
  old.swap(slots);
  for (const Slot& slot : old) {
    if (slot.count == 0) continue;
    find_slot(slots, hash_of(slot), [](const Slot&) { return false; }) = slot;
  }
}

template <class Slot>
void drop_free(std::vector<Slot>& slots) {
  std::erase_if(slots, [](const Slot& slot) { return slot.count == 0; });
}

/// A key's bytes in the order in which strings compare; the length, after them, decides last.
std::pair<uint64_t, uint64_t> order_of(const WordTable::ShortKey& key) {
  return {__builtin_bswap64(key.parts[0]), __builtin_bswap64(key.parts[1])};
}

}  // namespace

class WordTable::Run : public WordRun {
 public:
  Run(std::vector<ShortSlot> short_words, std::vector<LongSlot> long_words, std::string bytes)
      : short_(std::move(short_words)), long_(std::move(long_words)), bytes_(std::move(bytes)) {
    drop_free(short_);
    drop_free(long_);
    std::sort(short_.begin(), short_.end(), [](const ShortSlot& a, const ShortSlot& b) {
      return order_of(a.key) < order_of(b.key);
    });
    std::sort(long_.begin(), long_.end(),
              [this](const LongSlot& a, const LongSlot& b) { return bytes_of(a) < bytes_of(b); });
  }

  Result<std::optional<CountedWord>> next() override {
    const size_t at = next_++;
    if (at < short_.size()) {
      const auto& parts = short_[at].key.parts;
      const std::string_view word(reinterpret_cast<const char*>(parts.data()), parts.back() >> 56);
      return std::optional(CountedWord{word, short_[at].count});
    }
    if (at - short_.size() == long_.size()) return std::optional<CountedWord>();
    const LongSlot& slot = long_[at - short_.size()];
    return std::optional(CountedWord{bytes_of(slot), slot.count});
  }

 private:
  std::string_view bytes_of(const LongSlot& slot) const {
    return std::string_view(bytes_).substr(slot.begin, slot.length);
  }

  std::vector<ShortSlot> short_;
  std::vector<LongSlot> long_;
  std::string bytes_;
  size_t next_ = 0;
};

void WordTable::reserve(size_t count) {
  make_room(short_, short_count_ + count, [](const ShortSlot& slot) { return slot.key.hash(); });
  make_room(long_, long_count_ + count, [](const LongSlot& slot) { return slot.hash; });
}

void WordTable::add_short(const ShortKey& key, uint64_t hash) {
  ShortSlot& slot =
      find_slot(short_, hash, [&](const ShortSlot& known) { return known.key == key; });
  if (slot.count++ > 0) return;
  slot.key = key;
  ++short_count_;
}

void WordTable::add_long(std::string_view word) {
  const uint64_t hash = fast::hash_word(word);
  LongSlot& slot = find_slot(long_, hash, [&](const LongSlot& known) {
    return known.hash == hash &&
           std::string_view(long_bytes_).substr(known.begin, known.length) == word;
  });
  if (slot.count++ > 0) return;
  slot.hash = hash;
  slot.begin = long_bytes_.size();
  slot.length = word.size();
  long_bytes_ += word;
  ++long_count_;
}

size_t WordTable::memory() const {
  return short_.size() * sizeof(ShortSlot) + long_.size() * sizeof(LongSlot) +
         long_bytes_.capacity();
}

std::unique_ptr<WordRun> WordTable::take_run() {
  WordTable taken;
  std::swap(taken, *this);
  return std::make_unique<Run>(std::move(taken.short_), std::move(taken.long_),
                               std::move(taken.long_bytes_));
}

}  // namespace meg::tokenizer
