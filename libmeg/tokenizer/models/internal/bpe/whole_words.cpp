#include "libmeg/tokenizer/models/internal/bpe/whole_words.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "libmeg/tokenizer/words/internal/word_key.h"

namespace meg::tokenizer {

WholeWords::WholeWords(std::vector<Word> words) : words_(std::move(words)) {
  const size_t slots = std::bit_ceil(std::max<size_t>(2 * words_.size(), 64));
  slots_.resize(slots);
  // Eight bits a slot: enough that few words pass that are no tokens.
  filter_.resize(slots * 8 / 64);
  filter_shift_ = 64 - std::countr_zero(slots * 8);
  for (size_t i = 0; i < words_.size(); ++i) {
    const uint64_t hash = hash_of(words_[i].text);
    Slot& slot = slots_[slot_of(words_[i].text, hash)];
    if (slot.word != 0) {
      are_distinct_ = false;
      continue;
    }
    slot = {static_cast<uint32_t>(hash), static_cast<uint32_t>(i + 1)};
    filter_[filter_bit(hash) / 64] |= uint64_t{1} << (filter_bit(hash) % 64);
  }
}

std::optional<int32_t> WholeWords::find(std::string_view text) const {
  if (words_.empty()) return std::nullopt;
  const uint64_t hash = hash_of(text);
  if (((filter_[filter_bit(hash) / 64] >> (filter_bit(hash) % 64)) & 1) == 0) return std::nullopt;
  const Slot& slot = slots_[slot_of(text, hash)];
  if (slot.word == 0) return std::nullopt;
  return words_[slot.word - 1].id;
}

uint64_t WholeWords::hash_of(std::string_view text) { return fast::hash_word(text); }

/// Where text is, or else the free slot where it belongs.
size_t WholeWords::slot_of(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto is_other = [&](const Slot& slot) {
    return slot.tag != static_cast<uint32_t>(hash) || words_[slot.word - 1].text != text;
  };
  size_t at = (hash >> 24) & mask;
  while (slots_[at].word != 0 && is_other(slots_[at])) at = (at + 1) & mask;
  return at;
}

}  // namespace meg::tokenizer
