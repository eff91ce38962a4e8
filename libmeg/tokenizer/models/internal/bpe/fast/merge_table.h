#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"
#include "libmeg/tokenizer/models/internal/bpe/whole_words.h"
#include "libmeg/tokenizer/words/internal/merge_boundaries.h"

namespace meg::tokenizer::fast {

class WordMerger;

/// A model's merges for lookup by pair, and its ids by piece. Immutable; shared between threads.
///
/// Most lookups find nothing, so three small steps come before memory that may not be in a near
/// cache: a direct table for pairs of single bytes (all that a word starts with), a bit filter for
/// the other pairs, and slots of 8 bytes.
class MergeTable {
 public:
  static constexpr uint32_t kNoRank = UINT32_MAX;

  /// kUnsupported for more than 2^21 pieces or 2^22 - 1 merges.
  static Result<MergeTable> build(const BpeModel& model);

  /// Rank (lowest first) of the merge of two adjacent pieces; kNoRank if there is none.
  uint32_t rank(uint32_t left, uint32_t right) const {
    const uint64_t pair = pack(left, right);
    const uint64_t hash = pair * kMultiplier;
    return is_filtered(hash) ? kNoRank : rank_in(static_cast<size_t>(hash >> slot_shift_), pair);
  }

  // rank() in steps, between which the memory that the next one reads is on its way.

  /// Two pieces in one number, below kNoPair.
  static uint64_t pack(uint32_t left, uint32_t right) {
    return (uint64_t{left} << kPieceBits) | right;
  }

  /// Has no rank.
  static constexpr uint64_t kNoPair = uint64_t{1} << 42;

  void prefetch_filter(uint64_t pair) const {
    __builtin_prefetch(&filter_[((pair * kMultiplier) >> filter_shift_) / 64]);
  }

  /// Where rank_in() begins to look.
  size_t slot_of(uint64_t pair) const {
    const uint64_t hash = pair * kMultiplier;
    // Choose without a branch, because the answers of the filter are unpredictable.
    const size_t empty = slot_mask_ + 1;
    const auto slot = static_cast<size_t>(hash >> slot_shift_);
    return is_filtered(hash) ? empty : slot;
  }

  void prefetch_slot(size_t slot) const { __builtin_prefetch(&slots_[slot]); }

  uint32_t rank_in(size_t slot, uint64_t pair) const {
    while (true) {
      const uint64_t found = slots_[slot];
      if (found == kEmpty) return kNoRank;
      if (found >> kRankBits == pair) return static_cast<uint32_t>(found & kRankMask);
      slot = (slot + 1) & slot_mask_;
    }
  }

  void prefetch_result(uint32_t rank) const { __builtin_prefetch(&results_[rank]); }

  MergeOrder merge_order() const { return merge_order_; }

  /// Two neighbouring bytes of a word.
  struct BytePair {
    uint32_t rank;    ///< rank() of the two as pieces.
    uint32_t lowest;  ///< Rank of any merge whose left piece ends and whose right begins with them.
  };

  BytePair byte_pair(uint8_t left, uint8_t right) const {
    return byte_pairs_[size_t{left} << 8 | right];
  }

  /// The piece that the merge of a rank gives.
  uint32_t result(uint32_t rank) const { return results_[rank]; }

  /// The vocabulary's id of a piece.
  int32_t token_id(uint32_t piece) const { return token_ids_[piece]; }

  /// Id of a word that is a token and is not merged, unless merging it would give exactly that id
  /// anyway. If merging gives every token, there is none.
  std::optional<int32_t> unmerged_word(std::string_view word) const {
    return unmerged_words_.find(word);
  }

  /// Where words may be cut before they are merged.
  const MergeBoundaries& boundaries() const { return boundaries_; }

  /// Bytes of text that a piece stands for.
  uint32_t byte_length(uint32_t piece) const { return byte_lengths_[piece]; }

 private:
  // A slot is left piece << 43 | right piece << 22 | rank.
  static constexpr int kPieceBits = 21;
  static constexpr int kRankBits = 22;
  static constexpr uint64_t kRankMask = (uint64_t{1} << kRankBits) - 1;
  static constexpr uint64_t kEmpty = UINT64_MAX;
  static constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15u;

  MergeTable() = default;

  /// Whether the filter says that no pair with this hash is there.
  bool is_filtered(uint64_t hash) const {
    const uint64_t bit = hash >> filter_shift_;
    return ((filter_[bit / 64] >> (bit % 64)) & 1) == 0;
  }

  /// Makes the slots anew, for these merges.
  void fill(std::span<const BpeModel::Merge> merges);
  void insert(uint32_t left, uint32_t right, uint32_t rank);
  void fill_byte_pairs(const BpeModel& model, std::span<const BpeModel::Merge> merges);

  /// The merges that can come up. Of several that give one piece it is at most the one that comes
  /// last where the piece's own bytes are merged: whatever stands around them, no merge crossed
  /// their borders before, so the same merges happen there in the same order.
  /// is_merged: gets true for the pieces that their own bytes were found to merge to.
  std::vector<BpeModel::Merge> used_merges(const BpeModel& model,
                                           std::vector<bool>& is_merged) const;
  uint64_t last_pair(std::string_view bytes) const;

  /// The words for unmerged_word().
  WholeWords find_unmerged_words(const BpeModel& model, const std::vector<bool>& is_merged) const;

  static constexpr size_t kMaxTriedBytes = 64;

  // A power of two, open addressing, at most half full; and one that stays empty, for pairs that
  // the filter does not have.
  std::vector<uint64_t> slots_;
  std::vector<uint64_t> filter_;  // a bit for each slot of a table 8 times as large
  size_t slot_mask_ = 0;
  int slot_shift_ = 0;
  int filter_shift_ = 0;
  std::vector<BytePair> byte_pairs_;
  std::vector<uint32_t> results_;
  std::vector<int32_t> token_ids_;
  std::vector<uint32_t> byte_lengths_;
  MergeOrder merge_order_ = MergeOrder::kRounds;
  MergeBoundaries boundaries_;
  WholeWords unmerged_words_;  // with views into the model
};

}  // namespace meg::tokenizer::fast
