#include "libmeg/tokenizer/fast/word_merger.h"

#include <algorithm>

namespace meg::fast {
namespace {

uint8_t byte_of(char c) { return static_cast<uint8_t>(c); }

}  // namespace

std::span<const uint32_t> WordMerger::merge(std::string_view word) {
  if (word.size() <= kShortBytes) return {pieces_.data(), merge_short(word)};
  merge_long(word);
  return list_pieces_;
}

size_t WordMerger::merge_short(std::string_view word) {
  size_t count = word.size();
  for (size_t i = 0; i < count; ++i) pieces_[i] = byte_of(word[i]);
  for (size_t i = 0; i + 1 < count; ++i) {
    ranks_[i] = table_.byte_rank(byte_of(word[i]), byte_of(word[i + 1]));
  }
  while (count > 1) {
    uint32_t rank = ranks_[0];
    for (size_t i = 1; i + 1 < count; ++i) rank = std::min(rank, ranks_[i]);
    if (rank == MergeTable::kNoRank) break;
    const uint32_t result = table_.result(rank);
    for (size_t i = 0; i + 1 < count; ++i) {
      if (ranks_[i] != rank) continue;
      pieces_[i] = result;
      --count;
      for (size_t k = i + 1; k < count; ++k) pieces_[k] = pieces_[k + 1];
      for (size_t k = i + 1; k + 1 < count; ++k) ranks_[k] = ranks_[k + 1];
      if (i > 0) ranks_[i - 1] = table_.rank(pieces_[i - 1], pieces_[i]);
      if (i + 1 < count) ranks_[i] = table_.rank(pieces_[i], pieces_[i + 1]);
    }
  }
  return count;
}

void WordMerger::start_list(std::string_view word) {
  const size_t size = word.size();
  list_pieces_.resize(size);
  next_.resize(size);
  previous_.resize(size);
  list_ranks_.resize(size);
  for (size_t i = 0; i < size; ++i) {
    list_pieces_[i] = byte_of(word[i]);
    next_[i] = i + 1 < size ? static_cast<uint32_t>(i + 1) : kNone;
    previous_[i] = i > 0 ? static_cast<uint32_t>(i - 1) : kNone;
  }
}

/// Looks up the merge of the pair that starts at `left` and remembers it for a later round.
void WordMerger::push_pair(uint32_t left) {
  list_ranks_[left] = MergeTable::kNoRank;
  if (next_[left] == kNone) return;
  const uint32_t rank = table_.rank(list_pieces_[left], list_pieces_[next_[left]]);
  list_ranks_[left] = rank;
  if (rank != MergeTable::kNoRank) created_.push_back((uint64_t{rank} << 32) | left);
}

void WordMerger::merge_pair(uint32_t left) {
  const uint32_t right = next_[left];
  list_pieces_[left] = table_.result(list_ranks_[left]);
  next_[left] = next_[right];
  if (next_[right] != kNone) previous_[next_[right]] = left;
  list_ranks_[right] = MergeTable::kNoRank;
  push_pair(left);
  if (previous_[left] != kNone) push_pair(previous_[left]);
}

void WordMerger::merge_long(std::string_view word) {
  start_list(word);
  heap_.clear();
  created_.clear();
  for (size_t i = 0; i < word.size(); ++i) push_pair(static_cast<uint32_t>(i));
  const auto later = std::greater<uint64_t>();
  heap_.swap(created_);
  std::make_heap(heap_.begin(), heap_.end(), later);
  while (true) {
    for (const uint64_t pair : created_) {
      heap_.push_back(pair);
      std::push_heap(heap_.begin(), heap_.end(), later);
    }
    created_.clear();
    if (heap_.empty()) break;
    const auto rank = static_cast<uint32_t>(heap_.front() >> 32);
    while (!heap_.empty() && static_cast<uint32_t>(heap_.front() >> 32) == rank) {
      const auto left = static_cast<uint32_t>(heap_.front());
      std::pop_heap(heap_.begin(), heap_.end(), later);
      heap_.pop_back();
      if (list_ranks_[left] == rank) merge_pair(left);
    }
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
    const size_t overlap = window_bytes / 8;
    while (i > first && current.ends[i - 1] + overlap > window_bytes) --i;
    if (i == first) return false;
    const size_t shift = current.ends[i - 1];  // where `next` begins in `current`
    merge_window(current.begin + shift, next);

    size_t j = 0;
    const auto start = [](const Window& window, size_t k) {
      return k == 0 ? 0 : window.ends[k - 1];
    };
    while (i < current.pieces.size() && j < next.pieces.size()) {
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

}  // namespace meg::fast
