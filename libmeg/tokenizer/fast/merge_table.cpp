#include "libmeg/tokenizer/fast/merge_table.h"

#include <bit>

namespace meg::fast {

MergeTable::MergeTable(const BpeModel& model) {
  const size_t capacity = std::bit_ceil(model.merges().size() * 2 + 2);
  shift_ = 64 - std::countr_zero(capacity);
  slots_.assign(capacity, Slot{kEmpty, {kNoRank, 0}});
  uint32_t rank = 0;
  for (const BpeModel::Merge& merge : model.merges()) {
    const uint64_t pair =
        (uint64_t{static_cast<uint32_t>(merge.left)} << 32) | static_cast<uint32_t>(merge.right);
    size_t i = slot_of(pair);
    while (slots_[i].pair != kEmpty) i = (i + 1) & (capacity - 1);
    slots_[i] = {pair, {rank++, static_cast<uint32_t>(merge.result)}};
  }
  token_ids_.reserve(static_cast<size_t>(model.piece_count()));
  byte_lengths_.reserve(static_cast<size_t>(model.piece_count()));
  for (int32_t piece = 0; piece < model.piece_count(); ++piece) {
    token_ids_.push_back(model.token_id(piece));
    byte_lengths_.push_back(static_cast<uint32_t>(model.piece_bytes(piece).size()));
  }
}

}  // namespace meg::fast
