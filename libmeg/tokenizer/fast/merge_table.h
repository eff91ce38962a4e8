#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/tokenizer/bpe_model.h"

namespace meg::fast {

/// A model's merges for lookup by pair, and its ids by piece. Immutable; shared between threads.
class MergeTable {
 public:
  struct Found {
    uint32_t rank;    ///< Position among the merges, lowest first; kNoRank where there is none.
    uint32_t result;  ///< The merged piece.
  };

  static constexpr uint32_t kNoRank = UINT32_MAX;

  explicit MergeTable(const BpeModel& model);

  /// The merge of two neighbouring pieces.
  Found find(uint32_t left, uint32_t right) const {
    const uint64_t pair = (uint64_t{left} << 32) | right;
    for (size_t i = slot_of(pair);; i = (i + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[i];
      if (slot.pair == pair || slot.pair == kEmpty) return slot.found;
    }
  }

  /// The vocabulary's id of a piece.
  int32_t token_id(uint32_t piece) const { return token_ids_[piece]; }

  /// Bytes of text that a piece stands for.
  uint32_t byte_length(uint32_t piece) const { return byte_lengths_[piece]; }

 private:
  struct Slot {
    uint64_t pair;
    Found found;
  };

  static constexpr uint64_t kEmpty = UINT64_MAX;

  size_t slot_of(uint64_t pair) const {
    return static_cast<size_t>((pair * 0x9e3779b97f4a7c15u) >> shift_);
  }

  std::vector<Slot> slots_;  // a power of two, open addressing, at most 1/3 full
  int shift_;
  std::vector<int32_t> token_ids_;
  std::vector<uint32_t> byte_lengths_;
};

}  // namespace meg::fast
