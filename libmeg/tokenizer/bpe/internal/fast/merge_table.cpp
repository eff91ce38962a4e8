#include "libmeg/tokenizer/bpe/internal/fast/merge_table.h"

#include <algorithm>
#include <bit>

namespace meg::tokenizer::fast {

Result<MergeTable> MergeTable::build(const BpeModel& model) {
  const size_t merges = model.merges().size();
  // A slot packs two pieces and a rank into 64 bits, which bounds both. Ranks stay below kRankMask,
  // so no slot equals kEmpty.
  if (model.piece_count() > 1 << kPieceBits || merges >= kRankMask) {
    return make_error(StatusCode::kUnsupported,
                      "vocabulary: expected at most {} pieces and {} merges, found {} and {}",
                      1 << kPieceBits, kRankMask - 1, model.piece_count(), merges);
  }
  MergeTable table;
  const size_t capacity = std::bit_ceil(std::max<size_t>(merges * 2, 64));
  const int bits = std::countr_zero(capacity);
  table.slots_.assign(capacity, kEmpty);
  table.slot_mask_ = capacity - 1;
  table.slot_shift_ = 64 - bits;
  table.filter_.assign(capacity * 8 / 64, 0);
  // The filter's bit and the slot come from the same leading bits of one product: the filter is the
  // table's occupancy at eight times its resolution, small enough to stay in a near cache.
  table.filter_shift_ = 64 - bits - 3;
  table.byte_ranks_.assign(size_t{1} << 16, kNoRank);
  for (const BpeModel::Merge& merge : model.merges()) {
    const auto rank = static_cast<uint32_t>(merge.rank);
    // Merges come by rank. Some share one (the ways to cut one token of a tiktoken file) and then
    // also the result; a rank that no merge has is never looked up.
    table.results_.resize(rank + 1, static_cast<uint32_t>(merge.result));
    table.insert(static_cast<uint32_t>(merge.left), static_cast<uint32_t>(merge.right), rank);
  }
  table.merge_order_ = model.merge_order();
  for (int32_t piece = 0; piece < model.piece_count(); ++piece) {
    table.token_ids_.push_back(model.token_id(piece));
    table.byte_lengths_.push_back(static_cast<uint32_t>(model.piece_bytes(piece).size()));
  }
  return table;
}

void MergeTable::insert(uint32_t left, uint32_t right, uint32_t rank) {
  if (left < 256 && right < 256) byte_ranks_[left << 8 | right] = rank;
  const uint64_t pair = pack(left, right);
  const uint64_t hash = pair * kMultiplier;
  const uint64_t bit = hash >> filter_shift_;
  filter_[bit / 64] |= uint64_t{1} << (bit % 64);
  auto i = static_cast<size_t>(hash >> slot_shift_);
  while (slots_[i] != kEmpty) i = (i + 1) & slot_mask_;
  slots_[i] = pair << kRankBits | rank;
}

}  // namespace meg::tokenizer::fast
