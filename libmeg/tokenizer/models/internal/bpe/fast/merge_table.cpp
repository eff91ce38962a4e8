#include "libmeg/tokenizer/models/internal/bpe/fast/merge_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "libmeg/tokenizer/models/internal/bpe/fast/word_merger.h"

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
  table.merge_order_ = model.merge_order();
  for (const BpeModel::Merge& merge : model.merges()) {
    // Merges come by rank. Some share one (the ways to cut one token of a tiktoken file) and then
    // also the result; a rank that no merge has is never looked up.
    table.results_.resize(static_cast<size_t>(merge.rank) + 1, static_cast<uint32_t>(merge.result));
  }
  // used_merges() merges by the table itself, so it is filled with all of them first.
  table.fill(model.merges());
  std::vector<bool> is_merged(static_cast<size_t>(model.piece_count()));
  const std::vector<BpeModel::Merge> used = table.used_merges(model, is_merged);
  // Fewer entries: the filter in front of the table says no more often.
  if (used.size() < model.merges().size()) table.fill(used);
  if (!model.merges_characters()) table.fill_byte_pairs(model, used);
  for (int32_t piece = 0; piece < model.piece_count(); ++piece) {
    table.token_ids_.push_back(model.token_id(piece));
    table.byte_lengths_.push_back(static_cast<uint32_t>(model.piece_bytes(piece).size()));
  }
  table.unmerged_words_ = table.find_unmerged_words(model, is_merged);
  if (!model.merges_characters()) {
    std::vector<std::string_view> unmerged;
    for (const WholeWords::Word& word : table.unmerged_words_.words())
      unmerged.push_back(word.text);
    table.boundaries_ = MergeBoundaries(model.token_texts(), unmerged);
  }
  return table;
}

WholeWords MergeTable::find_unmerged_words(const BpeModel& model,
                                           const std::vector<bool>& is_merged) const {
  const WholeWords& all = model.whole_words();
  if (all.empty() || model.merges_characters()) return all;
  // The pieces that need no merging here, by id; larger ids, of which a vocabulary has few if any,
  // are left out.
  constexpr int32_t kNone = -1;
  std::vector<int32_t> merged(2 * all.words().size(), kNone);
  for (int32_t piece = 0; all.are_distinct() && piece < model.piece_count(); ++piece) {
    const auto id = static_cast<size_t>(model.token_id(piece));
    if (is_merged[static_cast<size_t>(piece)] && id < merged.size()) merged[id] = piece;
  }
  const auto is_known = [&](const WholeWords::Word& word) {
    const auto id = static_cast<size_t>(word.id);
    return id < merged.size() && merged[id] != kNone && model.piece_bytes(merged[id]) == word.text;
  };

  std::vector<WholeWords::Word> unmerged;
  WordMerger merger(*this);
  const auto check = [&](std::string_view text, std::span<const uint32_t> pieces) {
    const int32_t id = *all.find(text);
    if (pieces.size() > 1 || token_id(pieces[0]) != id) unmerged.push_back({text, id});
  };
  constexpr size_t kTogether = 64;
  std::vector<std::string_view> texts;
  std::vector<WordMerger::ShortWord> together;
  const auto check_together = [&] {
    merger.merge_together(together);
    for (size_t i = 0; i < texts.size(); ++i) {
      std::vector<uint32_t> pieces;
      together[i].for_each([&pieces](uint32_t piece) { pieces.push_back(piece); });
      check(texts[i], pieces);
    }
    texts.clear();
    together.clear();
  };
  for (const WholeWords::Word& word : all.words()) {
    if (word.text.empty() || is_known(word)) continue;
    if (word.text.size() > WordMerger::kShortBytes) {
      check(word.text, merger.merge(word.text));
      continue;
    }
    texts.push_back(word.text);
    together.emplace_back(word.text, *this);
    if (texts.size() == kTogether) check_together();
  }
  check_together();
  return WholeWords(std::move(unmerged));
}

void MergeTable::fill(std::span<const BpeModel::Merge> merges) {
  const size_t capacity = std::bit_ceil(std::max<size_t>(merges.size() * 2, 64));
  const int bits = std::countr_zero(capacity);
  slots_.assign(capacity + 1, kEmpty);
  slot_mask_ = capacity - 1;
  slot_shift_ = 64 - bits;
  filter_.assign(capacity * 8 / 64, 0);
  // The filter's bit and the slot come from the same leading bits of one product: the filter is the
  // table's occupancy at eight times its resolution, small enough to stay in a near cache.
  filter_shift_ = 64 - bits - 3;
  for (const BpeModel::Merge& merge : merges) {
    insert(static_cast<uint32_t>(merge.left), static_cast<uint32_t>(merge.right),
           static_cast<uint32_t>(merge.rank));
  }
}

std::vector<BpeModel::Merge> MergeTable::used_merges(const BpeModel& model,
                                                     std::vector<bool>& is_merged) const {
  // Where all occurrences of a pair merge at once, last_pair() would have to, too; merges.txt has
  // one merge a piece.
  if (model.merges_characters() || merge_order_ == MergeOrder::kRounds) return model.merges();
  std::vector<uint8_t> ways(static_cast<size_t>(model.piece_count()));  // at most 2
  for (const BpeModel::Merge& merge : model.merges()) {
    uint8_t& count = ways[static_cast<size_t>(merge.result)];
    count = static_cast<uint8_t>(std::min(count + 1, 2));
  }
  std::vector<BpeModel::Merge> used;
  int32_t tried = -1;
  uint64_t last = kEmpty;
  for (const BpeModel::Merge& merge : model.merges()) {
    const std::string_view bytes = model.piece_bytes(merge.result);
    if (ways[static_cast<size_t>(merge.result)] > 1 && bytes.size() <= kMaxTriedBytes) {
      if (merge.result != tried) last = last_pair(bytes);
      tried = merge.result;
      if (last != pack(static_cast<uint32_t>(merge.left), static_cast<uint32_t>(merge.right))) {
        continue;
      }
      is_merged[static_cast<size_t>(merge.result)] = true;
    }
    used.push_back(merge);
  }
  return used;
}

/// The two pieces, packed, that `bytes` are before they are one; kEmpty where they never are.
uint64_t MergeTable::last_pair(std::string_view bytes) const {
  std::array<uint32_t, kMaxTriedBytes> pieces;
  size_t count = bytes.size();
  std::copy_n(reinterpret_cast<const uint8_t*>(bytes.data()), count, pieces.begin());
  while (count > 2) {
    uint32_t lowest = kNoRank;
    size_t at = 0;
    for (size_t i = 0; i + 1 < count; ++i) {
      const uint32_t found = rank(pieces[i], pieces[i + 1]);
      if (found < lowest) at = i;
      lowest = std::min(lowest, found);
    }
    if (lowest == kNoRank) return kEmpty;
    pieces[at] = results_[lowest];
    std::copy(&pieces[at + 2], &pieces[count], &pieces[at + 1]);
    --count;
  }
  return pack(pieces[0], pieces[1]);
}

void MergeTable::insert(uint32_t left, uint32_t right, uint32_t rank) {
  const uint64_t pair = pack(left, right);
  const uint64_t hash = pair * kMultiplier;
  const uint64_t bit = hash >> filter_shift_;
  filter_[bit / 64] |= uint64_t{1} << (bit % 64);
  auto i = static_cast<size_t>(hash >> slot_shift_);
  while (slots_[i] != kEmpty) i = (i + 1) & slot_mask_;
  slots_[i] = pair << kRankBits | rank;
}

void MergeTable::fill_byte_pairs(const BpeModel& model, std::span<const BpeModel::Merge> merges) {
  byte_pairs_.assign(size_t{1} << 16, {kNoRank, kNoRank});
  for (const BpeModel::Merge& merge : merges) {
    const auto last = static_cast<uint8_t>(model.piece_bytes(merge.left).back());
    const auto first = static_cast<uint8_t>(model.piece_bytes(merge.right).front());
    BytePair& pair = byte_pairs_[size_t{last} << 8 | first];
    const auto rank = static_cast<uint32_t>(merge.rank);
    if (merge.left < 256 && merge.right < 256) pair.rank = rank;
    pair.lowest = std::min(pair.lowest, rank);
  }
}

}  // namespace meg::tokenizer::fast
