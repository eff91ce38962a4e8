#include "libmeg/tokenizer/bpe/internal/fast/word_merger.h"

#include <algorithm>

namespace meg::tokenizer::fast {
namespace {

uint8_t byte_of(char c) { return static_cast<uint8_t>(c); }

}  // namespace

/// Three ways by length, which give the same pieces:
///  - up to kShortBytes a scan of all ranks for the lowest, in two arrays without links;
///  - above that a linked list with the pairs in a tree (MinTree) that knows the lowest;
///  - from kWindowBytes on, called by the encoder, merge_windows() over windows of the latter.
/// Where they change over is where the measured times cross (docs/performance.md, "The encoder:
/// log").
std::span<const uint32_t> WordMerger::merge(std::string_view word) {
  const size_t size = word.size();
  if (size <= kShortBytes) {
    for (size_t i = 0; i < size; ++i) pieces_[i] = byte_of(word[i]);
    for (size_t i = 0; i + 1 < size; ++i) {
      ranks_[i] = table_.byte_rank(byte_of(word[i]), byte_of(word[i + 1]));
    }
    return {pieces_.data(), merge_short(size)};
  }
  list_pieces_.resize(size);
  for (size_t i = 0; i < size; ++i) list_pieces_[i] = byte_of(word[i]);
  merge_long();
  return list_pieces_;
}

std::span<const uint32_t> WordMerger::merge(std::span<const int32_t> start) {
  if (start.size() <= kShortBytes) {
    for (size_t i = 0; i < start.size(); ++i) pieces_[i] = static_cast<uint32_t>(start[i]);
    for (size_t i = 0; i + 1 < start.size(); ++i) {
      ranks_[i] = table_.rank(pieces_[i], pieces_[i + 1]);
    }
    return {pieces_.data(), merge_short(start.size())};
  }
  list_pieces_.assign(start.begin(), start.end());
  merge_long();
  return list_pieces_;
}

/// Merges the first `count` of pieces_, whose ranks are set. Returns how many are left.
size_t WordMerger::merge_short(size_t count) {
  // GPT-2's Python merges every occurrence of the pair it has chosen before it chooses again, even
  // where one of these merges makes a pair of a lower rank; tokenizers and tiktoken choose anew
  // after each merge. `lower` ends the pass for the latter. No trained vocabulary tells them apart,
  // a hand-made one does.
  const bool in_rounds = table_.merge_order() == MergeOrder::kRounds;
  while (count > 1) {
    uint32_t rank = ranks_[0];
    for (size_t i = 1; i + 1 < count; ++i) rank = std::min(rank, ranks_[i]);
    if (rank == MergeTable::kNoRank) break;
    const uint32_t result = table_.result(rank);
    bool lower = false;
    // From left to right, as in "aaa" with the merge (a, a) the first two are merged. The pair made
    // at i is never of this rank: its result is longer than either side of the rank's pair.
    for (size_t i = 0; i + 1 < count && !lower; ++i) {
      if (ranks_[i] != rank) continue;
      pieces_[i] = result;
      --count;
      for (size_t k = i + 1; k < count; ++k) pieces_[k] = pieces_[k + 1];
      for (size_t k = i + 1; k + 1 < count; ++k) ranks_[k] = ranks_[k + 1];
      if (i > 0) ranks_[i - 1] = table_.rank(pieces_[i - 1], pieces_[i]);
      if (i + 1 < count) ranks_[i] = table_.rank(pieces_[i], pieces_[i + 1]);
      if (in_rounds) continue;
      lower = (i > 0 && ranks_[i - 1] < rank) || (i + 1 < count && ranks_[i] < rank);
    }
  }
  return count;
}

void WordMerger::link_list() {
  const size_t size = list_pieces_.size();
  next_.resize(size);
  previous_.resize(size);
  pairs_.resize(size);
  for (size_t i = 0; i < size; ++i) {
    const auto left = static_cast<uint32_t>(i);
    next_[i] = i + 1 < size ? left + 1 : kNone;
    previous_[i] = i > 0 ? left - 1 : kNone;
    if (i + 1 == size) break;
    pairs_.assign(i, pair(table_.rank(list_pieces_[i], list_pieces_[i + 1]), left));
  }
  pairs_.build();
}

/// Looks up the merge of the pair that starts at `left`. In rounds, one that would come before the
/// pairs of this round waits for the next.
void WordMerger::look_up_pair(uint32_t left) {
  uint32_t rank = MergeTable::kNoRank;
  if (next_[left] != kNone) rank = table_.rank(list_pieces_[left], list_pieces_[next_[left]]);
  if (rank < round_ && table_.merge_order() == MergeOrder::kRounds) {
    postponed_.push_back(left);
    rank = MergeTable::kNoRank;
  }
  pairs_.set(left, pair(rank, left));
}

void WordMerger::merge_pair(uint32_t left) {
  const uint32_t right = next_[left];
  list_pieces_[left] = table_.result(round_);
  next_[left] = next_[right];
  if (next_[right] != kNone) previous_[next_[right]] = left;
  // The right piece is gone; its place in the list is never linked again, so no pair may start
  // there.
  pairs_.set(right, MinTree::kInfinite);
  look_up_pair(left);
  if (previous_[left] != kNone) look_up_pair(previous_[left]);
}

/// A key is rank, then position: the tree's minimum is the leftmost occurrence of the lowest rank,
/// which is what both orders of merging take next. One pass of the outer loop is one round.
void WordMerger::merge_long() {
  link_list();
  while (pairs_.min() != MinTree::kInfinite) {
    round_ = static_cast<uint32_t>(pairs_.min() >> 32);
    while (pairs_.min() >> 32 == round_) merge_pair(static_cast<uint32_t>(pairs_.min()));
    // No rank is below 0, so look_up_pair() postpones nothing now.
    round_ = 0;
    for (const uint32_t left : postponed_) look_up_pair(left);
    postponed_.clear();
  }
  size_t count = 0;
  for (uint32_t i = 0; i != kNone; i = next_[i]) list_pieces_[count++] = list_pieces_[i];
  list_pieces_.resize(count);
}

bool WordMerger::merge_windows(std::string_view word, const Emit& emit, size_t window_bytes) {
  // The pieces of word[begin, begin + window) and where each ends, as bytes from `begin`.
  struct Window {
    size_t begin = 0;
    std::vector<uint32_t> pieces;
    std::vector<uint32_t> ends;
  };

  const auto merge_window = [&](size_t begin, Window& window) {
    const auto pieces = merge(word.substr(begin, window_bytes));
    window.begin = begin;
    window.pieces.assign(pieces.begin(), pieces.end());
    window.ends.clear();
    uint32_t end = 0;
    for (const uint32_t piece : pieces) window.ends.push_back(end += table_.byte_length(piece));
  };

  Window current;
  Window next;
  merge_window(0, current);
  size_t first = 0;  // pieces of `current` before this one are not part of the result
  while (current.begin + window_bytes < word.size()) {
    size_t i = current.pieces.size() - 1;
    // The next window begins at the last border of the pieces that leaves this overlap: enough for
    // the two results to agree on a token (word_merger.h), little enough to merge few bytes twice.
    const size_t overlap = window_bytes / 8;
    while (i > first && current.ends[i - 1] + overlap > window_bytes) --i;
    // One piece fills all of what is left of the window: there is no border to begin the next one
    // at.
    if (i == first) return false;
    const size_t shift = current.ends[i - 1];  // where `next` begins in `current`
    merge_window(current.begin + shift, next);

    size_t j = 0;
    const auto start = [](const Window& window, size_t k) {
      return k == 0 ? 0 : window.ends[k - 1];
    };
    while (i < current.pieces.size() && j < next.pieces.size()) {
      // Both run through the overlap by position until they have the same piece at the same place;
      // one that lies behind moves on, and both where they begin together but differ.
      const size_t here = start(current, i);
      const size_t there = shift + start(next, j);
      if (here == there && current.pieces[i] == next.pieces[j]) break;
      if (here <= there) ++i;
      if (there <= here) ++j;
    }
    if (i >= current.pieces.size() || j >= next.pieces.size()) return false;
    emit(std::span(current.pieces).subspan(first, i - first));
    std::swap(current, next);
    first = j;
  }
  emit(std::span(current.pieces).subspan(first));
  return true;
}

}  // namespace meg::tokenizer::fast
