#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/models/internal/bpe/fast/merge_table.h"
#include "libmeg/tokenizer/models/internal/min_tree.h"

namespace meg::tokenizer::fast {

/// Merges byte pairs of single words in the table's order: takes the pair of the lowest rank,
/// merges its occurrences from left to right, all of them or until a lower rank appears, and
/// repeats. For use by one thread.
class WordMerger {
 public:
  /// Words above this many bytes should go through merge_windows.
  static constexpr size_t kWindowBytes = 4096;

  /// Words up to this many bytes may be merged together.
  static constexpr size_t kShortBytes = 32;

  class ShortWord;

  /// Merges words side by side, so that their waits for memory overlap.
  void merge_together(std::span<ShortWord> words);

  explicit WordMerger(const MergeTable& table) : table_(table) {}

  /// The pieces of a word of at least one byte. Valid until the next call. O(n log n) time, about
  /// 22 bytes of memory for each byte of the longest word so far.
  std::span<const uint32_t> merge(std::string_view word);

  /// The same for a word that is given as the pieces to start with, at least one.
  std::span<const uint32_t> merge(std::span<const int32_t> start);

  using Emit = std::function<void(std::span<const uint32_t> pieces)>;

  /// The pieces of a word of any length, handed to emit in order; O(n) time, and memory for two
  /// windows only. Returns false, perhaps after some calls of emit, for a word that cannot be cut:
  /// merge it whole then.
  ///
  /// Why cutting is exact. Two facts about the loop, for any list of merges:
  /// 1. Neighbouring tokens of a result are the result for their own text: no merge crossed their
  ///    outer borders, so the same merges happen there in the same order without the rest.
  /// 2. If A M is the result for the text a m, and M B the result for m b, with at least one token
  ///    in common (in M), then A M B is the result for a m b. Suppose the loop on a m b merged, for
  ///    the first time, a pair that neither history has. Inside one of the tokens it would be in
  ///    that token's history; across a border, both of its pieces lie in a m or both in m b, where
  ///    the same pair stood in the same surroundings and was not merged.
  /// So windows that overlap are merged one by one and joined at a token that both have at the same
  /// place. The next window starts at a border of the last one's tokens, so that this is nearly
  /// always the first token of the overlap.
  bool merge_windows(std::string_view word, const Emit& emit, size_t window_bytes = kWindowBytes);

 private:
  template <bool kInRounds>
  void merge_short(std::span<ShortWord> words);
  void look_up_pending(ShortWord& word) const;
  template <bool kInRounds>
  bool choose(ShortWord& word) const;
  void merge_chosen(ShortWord& word) const;
  std::span<const uint32_t> merge_alone(ShortWord word);
  void merge_long();
  void link_list();
  void look_up_pair(uint32_t left);
  void merge_pair(uint32_t left);

  const MergeTable& table_;

  std::vector<ShortWord*> unfinished_;

  static uint64_t pair(uint32_t rank, uint32_t left) {
    return rank == MergeTable::kNoRank ? MinTree::kInfinite : uint64_t{rank} << 32 | left;
  }

  /// merge_long: a linked list over the word's bytes.
  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> list_pieces_, next_, previous_;
  MinTree pairs_;                    // rank << 32 | left for the pair that starts at `left`
  uint32_t round_ = 0;               // the rank that is merged now
  std::vector<uint32_t> postponed_;  // pairs of a lower rank that this round made
};

/// A word of 1 to kShortBytes pieces to start with, while and after it is merged.
class WordMerger::ShortWord {
 public:
  ShortWord(std::string_view word, const MergeTable& table);
  ShortWord(std::span<const int32_t> start, const MergeTable& table);

  /// Calls put(piece) for each piece from left to right.
  template <class Put>
  void for_each(const Put& put) const {
    for (uint32_t left = begins_; left != 0; left &= left - 1) {
      put(pieces_[static_cast<size_t>(std::countr_zero(left))]);
    }
  }

 private:
  friend class WordMerger;

  // Keys of pairs: rank * kShortBytes + place, so that the smallest is the leftmost of the lowest
  // rank. Signed, as there are vector instructions for the smaller one of these everywhere.
  static constexpr int32_t kNoKey = INT32_MAX;
  static constexpr size_t kNoPlace = kShortBytes;
  static constexpr size_t kGroup = 8;

  static int32_t key(uint32_t rank, size_t place) {
    return rank == MergeTable::kNoRank ? kNoKey : static_cast<int32_t>(rank * kShortBytes + place);
  }

  /// The pair at `place`, where a piece begins and another follows.
  uint64_t pair_at(size_t place) const;

  void merge_safe_pairs(uint32_t safe, const MergeTable& table);
  int32_t smallest_key() const;
  int32_t key_of_round(int32_t smallest) const;

  std::array<uint32_t, kShortBytes> pieces_;   // by the place where they begin
  std::array<int32_t, kShortBytes + 1> keys_;  // of the pairs that begin at each place and at none
  uint32_t begins_;                            // a bit for each place where a piece begins
  uint32_t groups_;                            // of keys
  uint32_t pending_;  // a bit for each place whose pair is not looked up yet

  // The merge that comes next and what it changes.
  uint32_t rank_;
  size_t place_, before_;
  uint64_t pair_before_, pair_;
  size_t slot_before_, slot_;
};

}  // namespace meg::tokenizer::fast
