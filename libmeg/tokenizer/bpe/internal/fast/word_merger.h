#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/bpe/internal/fast/merge_table.h"
#include "libmeg/tokenizer/bpe/internal/fast/min_tree.h"

namespace meg::tokenizer::fast {

/// Byte-pair merging of single words in the table's order: take the pair of the lowest rank, merge
/// its occurrences from left to right, all of them or until a lower rank appears, repeat. Belongs
/// to one thread.
class WordMerger {
 public:
  /// Words above this many bytes should go through merge_windows.
  static constexpr size_t kWindowBytes = 4096;

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
  static constexpr size_t kShortBytes = 32;

  size_t merge_short(size_t count);
  void merge_long();
  void link_list();
  void look_up_pair(uint32_t left);
  void merge_pair(uint32_t left);

  const MergeTable& table_;

  std::array<uint32_t, kShortBytes> pieces_;
  std::array<uint32_t, kShortBytes> ranks_;  // of the pairs (i, i + 1)

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

}  // namespace meg::tokenizer::fast
