#include "libmeg/tokenizer/models/internal/bpe/reference/bpe.h"

#include <algorithm>

namespace meg::tokenizer::reference {

namespace {

/// The pieces with the first `count` occurrences of the merge's pair joined, from left to right.
std::vector<int32_t> joined(const std::vector<int32_t>& pieces, const BpeModel::Merge& merge,
                            size_t count) {
  std::vector<int32_t> result;
  for (size_t at = 0; at < pieces.size();) {
    const bool is_pair = count > 0 && at + 1 < pieces.size() && pieces[at] == merge.left &&
                         pieces[at + 1] == merge.right;
    count -= is_pair ? 1 : 0;
    result.push_back(is_pair ? merge.result : pieces[at]);
    at += is_pair ? 2 : 1;
  }
  return result;
}

}  // namespace

Bpe::Bpe(const BpeModel& model) : model_(model) {
  merges_.reserve(model.merges().size());
  for (const BpeModel::Merge& merge : model.merges()) {
    merges_[key(merge.left, merge.right)] = &merge;
  }
}

std::vector<int32_t> Bpe::merge(std::string_view word) const {
  std::vector<int32_t> pieces;
  model_.start_pieces(word, pieces);
  // In rounds all occurrences of the pair are merged before ranks are looked at again; word.size()
  // is more than there can be.
  const size_t count = model_.merge_order() == MergeOrder::kRounds ? word.size() : 1;
  while (const BpeModel::Merge* merge = first_merge(pieces)) {
    pieces = joined(pieces, *merge, count);
  }
  return pieces;
}

uint64_t Bpe::key(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(left) << 32) | static_cast<uint32_t>(right);
}

const BpeModel::Merge* Bpe::first_merge(const std::vector<int32_t>& pieces) const {
  const BpeModel::Merge* first = nullptr;
  for (size_t at = 0; at + 1 < pieces.size(); ++at) {
    const auto found = merges_.find(key(pieces[at], pieces[at + 1]));
    if (found == merges_.end()) continue;
    if (first == nullptr || found->second->rank < first->rank) first = found->second;
  }
  return first;
}

}  // namespace meg::tokenizer::reference
