#include "libmeg/tokenizer/models/internal/sentencepiece/fast/bpe.h"

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/model.h"

namespace meg::tokenizer::sentencepiece::fast {

/// The same joining as reference::merge(), by numbers instead of texts: a word becomes symbols, and
/// merges_[i] is what parts i and i + 1 would give. Both ways take the best rank and of equal ranks
/// the leftmost, which is the library's order of its queue.
std::span<const Segment> BpeSegmenter::segment(std::string_view word) {
  split(word);
  merges_.clear();
  for (size_t i = 0; i + 1 < parts_.size(); ++i) {
    merges_.push_back(merge_of(parts_[i], parts_[i + 1]));
  }
  if (parts_.size() <= kFewSymbols) {
    merge_few();
  } else {
    merge_many();
  }
  put_segments();
  return segments_;
}

void BpeSegmenter::split(std::string_view word) {
  const PieceTrie& user_symbols = pairs_.user_symbols();
  parts_.clear();
  while (!word.empty()) {
    int32_t symbol = 0;
    size_t size = 0;
    if (!user_symbols.empty()) size = user_symbols.longest_prefix(word, kMaxSymbolMatches, &symbol);
    if (size > 0) {
      parts_.push_back({static_cast<uint32_t>(symbol), static_cast<uint32_t>(size), true});
    } else {
      size = text::character_size(word[0]);
      parts_.push_back(
          {pairs_.character(word.substr(0, size)), static_cast<uint32_t>(size), false});
    }
    word.remove_prefix(size);
  }
}

MergePairs::Merge BpeSegmenter::merge_of(const Part& left, const Part& right) const {
  // User-defined symbols are never joined.
  if (left.frozen || right.frozen) return {};
  return pairs_.find(left.symbol, right.symbol);
}

void BpeSegmenter::merge_few() {
  while (!merges_.empty()) {
    size_t best = 0;
    for (size_t i = 1; i < merges_.size(); ++i) {
      if (merges_[i].rank < merges_[best].rank) best = i;
    }
    if (merges_[best].rank == MergePairs::kNoRank) return;
    parts_[best].symbol = merges_[best].result;
    parts_[best].size += parts_[best + 1].size;
    const auto offset = static_cast<std::ptrdiff_t>(best);
    parts_.erase(parts_.begin() + offset + 1);
    merges_.erase(merges_.begin() + offset);
    // Only the pairs on both sides of the new part have changed.
    if (best > 0) merges_[best - 1] = merge_of(parts_[best - 1], parts_[best]);
    if (best < merges_.size()) merges_[best] = merge_of(parts_[best], parts_[best + 1]);
  }
}

/// Merges like merge_few, with the pairs in a tree by rank, then position. A part that is joined to
/// the one before it keeps its place and has size 0.
void BpeSegmenter::merge_many() {
  const auto count = static_cast<uint32_t>(parts_.size());
  const auto key_of = [this](uint32_t i) {
    return merges_[i].rank == MergePairs::kNoRank ? tokenizer::fast::MinTree::kInfinite
                                                  : uint64_t{merges_[i].rank} << 32 | i;
  };
  previous_.resize(count);
  next_.resize(count);
  tree_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    // For the first part this wraps around; it is never followed, as left == 0 has no pair before
    // it.
    previous_[i] = i - 1;
    next_[i] = i + 1;
    if (i + 1 < count) tree_.assign(i, key_of(i));
  }
  tree_.build();
  while (tree_.min() != tokenizer::fast::MinTree::kInfinite) {
    const auto left = static_cast<uint32_t>(tree_.min());
    const uint32_t right = next_[left];
    parts_[left].symbol = merges_[left].result;
    parts_[left].size += parts_[right].size;
    parts_[right].size = 0;
    next_[left] = next_[right];
    if (right + 1 < count) tree_.set(right, tokenizer::fast::MinTree::kInfinite);
    if (next_[left] < count) {
      previous_[next_[left]] = left;
      merges_[left] = merge_of(parts_[left], parts_[next_[left]]);
    } else {
      merges_[left] = {};
    }
    tree_.set(left, key_of(left));
    if (left == 0) continue;
    const uint32_t before = previous_[left];
    merges_[before] = merge_of(parts_[before], parts_[left]);
    tree_.set(before, key_of(before));
  }
}

void BpeSegmenter::put_segments() {
  segments_.clear();
  for (const Part& part : parts_) {
    if (part.size == 0) continue;
    const bool known = part.symbol != MergePairs::kNoSymbol && pairs_.id(part.symbol) >= 0;
    segments_.push_back({known ? pairs_.id(part.symbol) : Segment::kUnknown, part.size});
  }
}

}  // namespace meg::tokenizer::sentencepiece::fast
