#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"

namespace meg::tokenizer::reference {

/// Byte pair encoding as Megatron-LM's loop does it: find the pair of lowest rank, merge all its
/// occurrences from left to right, or only the first one (MergeOrder), until no pair has a rank.
/// Time grows with the square of a word's length.
/// Mirrors Megatron-LM megatron/tokenizer/gpt2_tokenization.py: GPT2Tokenizer.bpe.
class Bpe {
 public:
  /// model is borrowed.
  explicit Bpe(const BpeModel& model);

  /// The numbers of the pieces that the bytes of one word merge to.
  std::vector<int32_t> merge(std::string_view word) const;

 private:
  static uint64_t key(int32_t left, int32_t right);

  /// The leftmost merge of the lowest rank; null if there is none.
  const BpeModel::Merge* first_merge(const std::vector<int32_t>& pieces) const;

  const BpeModel& model_;
  std::unordered_map<uint64_t, const BpeModel::Merge*> merges_;  // by pair
};

}  // namespace meg::tokenizer::reference
