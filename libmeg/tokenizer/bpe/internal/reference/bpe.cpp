#include "libmeg/tokenizer/bpe/internal/reference/bpe.h"

#include <algorithm>

namespace meg::tokenizer::reference {

namespace {

/// The pieces with every occurrence of the merge's pair joined, from left to right.
std::vector<int32_t> joined(const std::vector<int32_t>& pieces, const BpeModel::Merge& merge) {
  std::vector<int32_t> result;
  for (size_t at = 0; at < pieces.size();) {
    const bool is_pair =
        at + 1 < pieces.size() && pieces[at] == merge.left && pieces[at + 1] == merge.right;
    result.push_back(is_pair ? merge.result : pieces[at]);
    at += is_pair ? 2 : 1;
  }
  return result;
}

}  // namespace

Bpe::Bpe(const BpeModel& model) : model_(model) {
  ranks_.reserve(model.merges().size());
  int32_t rank = 0;
  for (const BpeModel::Merge& merge : model.merges()) {
    ranks_[key(merge.left, merge.right)] = rank++;
  }
}

std::vector<int32_t> Bpe::merge(std::string_view word) const {
  std::vector<int32_t> pieces;
  for (const char byte : word) pieces.push_back(static_cast<uint8_t>(byte));
  for (int32_t rank = lowest_rank(pieces); rank != kNoMerge; rank = lowest_rank(pieces)) {
    pieces = joined(pieces, model_.merges()[static_cast<size_t>(rank)]);
  }
  return pieces;
}

uint64_t Bpe::key(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(left) << 32) | static_cast<uint32_t>(right);
}

int32_t Bpe::lowest_rank(const std::vector<int32_t>& pieces) const {
  int32_t lowest = kNoMerge;
  for (size_t at = 0; at + 1 < pieces.size(); ++at) {
    const auto found = ranks_.find(key(pieces[at], pieces[at + 1]));
    if (found == ranks_.end()) continue;
    if (lowest == kNoMerge || found->second < lowest) lowest = found->second;
  }
  return lowest;
}

}  // namespace meg::tokenizer::reference
