#include "libmeg/tokenizer/models/internal/bpe/fast/word_merger.h"

#include <algorithm>
#include <utility>

namespace meg::tokenizer::fast {
namespace {

uint8_t byte_of(char c) { return static_cast<uint8_t>(c); }

}  // namespace

WordMerger::ShortWord::ShortWord(std::string_view word, const MergeTable& table)
    : begins_(UINT32_MAX >> (kShortBytes - word.size())),
      groups_(static_cast<uint32_t>((word.size() + kGroup - 1) / kGroup)),
      pending_(0) {
  keys_.fill(kNoKey);
  for (size_t i = 0; i < word.size(); ++i) pieces_[i] = byte_of(word[i]);
  const size_t pairs = word.size() - 1;
  // These are of the pair before the one that is read: its rank, and the lowest rank of merges
  // across the borders before it and inside it.
  uint32_t rank = MergeTable::kNoRank;
  uint32_t before = MergeTable::kNoRank;
  uint32_t inside = MergeTable::kNoRank;
  uint64_t safe = 0;
  for (size_t i = 0; i < pairs; ++i) {
    const MergeTable::BytePair pair = table.byte_pair(byte_of(word[i]), byte_of(word[i + 1]));
    keys_[i] = key(pair.rank, i);
    safe |= uint64_t{rank < std::min(before, pair.lowest)} << i;
    rank = pair.rank;
    before = std::exchange(inside, pair.lowest);
  }
  safe |= uint64_t{rank < before} << pairs;
  merge_safe_pairs(static_cast<uint32_t>(safe >> 1), table);
}

/// Merges pairs of bytes of a lower rank than any merge that crosses the border before or after
/// them. None of these is chosen before such a pair, nor what the pair's result makes with its
/// neighbours, so the others are merged in the order that they have without it: the result is that
/// of one merge after another. It spares a third of the merges, which wait for each other, and more
/// of the pairs to look up.
void WordMerger::ShortWord::merge_safe_pairs(uint32_t safe, const MergeTable& table) {
  if (safe == 0) return;
  for (uint32_t left = safe; left != 0; left &= left - 1) {
    const auto place = static_cast<size_t>(std::countr_zero(left));
    pieces_[place] = table.result(static_cast<uint32_t>(keys_[place]) / kShortBytes);
    keys_[place + 1] = kNoKey;
  }
  begins_ &= ~(safe << 1);
  const uint32_t last = uint32_t{1} << (31 - std::countl_zero(begins_));
  pending_ = (safe | (safe >> 1 & begins_)) & ~last;
  keys_[static_cast<size_t>(std::countr_zero(last))] = kNoKey;
  for (uint32_t left = pending_; left != 0; left &= left - 1) {
    const uint64_t pair = pair_at(static_cast<size_t>(std::countr_zero(left)));
    table.prefetch_slot(table.slot_of(pair));
  }
}

uint64_t WordMerger::ShortWord::pair_at(size_t place) const {
  const uint32_t behind = begins_ & (UINT32_MAX - 1) << place;
  return MergeTable::pack(pieces_[place], pieces_[static_cast<size_t>(std::countr_zero(behind))]);
}

WordMerger::ShortWord::ShortWord(std::span<const int32_t> start, const MergeTable& table)
    : begins_(UINT32_MAX >> (kShortBytes - start.size())),
      groups_(static_cast<uint32_t>((start.size() + kGroup - 1) / kGroup)),
      pending_(0) {
  keys_.fill(kNoKey);
  for (size_t i = 0; i < start.size(); ++i) pieces_[i] = static_cast<uint32_t>(start[i]);
  for (size_t i = 0; i + 1 < start.size(); ++i) {
    keys_[i] = key(table.rank(pieces_[i], pieces_[i + 1]), i);
  }
}

int32_t WordMerger::ShortWord::smallest_key() const {
  std::array<int32_t, kGroup> smallest;
  std::copy_n(keys_.begin(), kGroup, smallest.begin());
  for (size_t group = 1; group < groups_; ++group) {
    for (size_t i = 0; i < kGroup; ++i) {
      smallest[i] = std::min(smallest[i], keys_[group * kGroup + i]);
    }
  }
  for (size_t half = kGroup / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) smallest[i] = std::min(smallest[i], smallest[i + half]);
  }
  return smallest[0];
}

/// The smallest key of the rank that was merged last; where there is none, the smallest one.
///
/// The piece that a merge makes is in no pair of the merge's rank, whose result is longer than
/// either side of such a pair. So these pairs all lie to the right.
int32_t WordMerger::ShortWord::key_of_round(int32_t smallest) const {
  if (smallest / static_cast<int32_t>(kShortBytes) >= static_cast<int32_t>(rank_)) return smallest;
  const auto is_of_round = [this](int32_t key) {
    return key != kNoKey && static_cast<uint32_t>(key) / kShortBytes == rank_;
  };
  const auto found = std::find_if(keys_.begin(), keys_.end(), is_of_round);
  return found == keys_.end() ? smallest : *found;
}

/// Three ways by length, which give the same pieces:
///  - up to kShortBytes a scan of all ranks for the lowest;
///  - above that a linked list with the pairs in a tree (MinTree) that knows the lowest;
///  - from kWindowBytes on, called by the encoder, merge_windows() over windows of the latter.
/// Where they change over is where the measured times cross (docs/performance.md, "The encoder:
/// log").
std::span<const uint32_t> WordMerger::merge(std::string_view word) {
  const size_t size = word.size();
  if (size <= kShortBytes) return merge_alone(ShortWord(word, table_));
  list_pieces_.resize(size);
  for (size_t i = 0; i < size; ++i) list_pieces_[i] = byte_of(word[i]);
  merge_long();
  return list_pieces_;
}

std::span<const uint32_t> WordMerger::merge(std::span<const int32_t> start) {
  if (start.size() <= kShortBytes) return merge_alone(ShortWord(start, table_));
  list_pieces_.assign(start.begin(), start.end());
  merge_long();
  return list_pieces_;
}

std::span<const uint32_t> WordMerger::merge_alone(ShortWord word) {
  merge_together({&word, 1});
  list_pieces_.clear();
  word.for_each([this](uint32_t piece) { list_pieces_.push_back(piece); });
  return list_pieces_;
}

void WordMerger::merge_together(std::span<ShortWord> words) {
  // GPT-2's Python merges every occurrence of the pair it has chosen before it chooses again, even
  // where one of these merges makes a pair of a lower rank; tokenizers and tiktoken choose anew
  // after each merge. No trained vocabulary tells them apart, a hand-made one does.
  if (table_.merge_order() == MergeOrder::kRounds) {
    merge_short<true>(words);
  } else {
    merge_short<false>(words);
  }
}

/// Each pass makes one merge in every word, in steps that ask memory for what the next one reads.
template <bool kInRounds>
void WordMerger::merge_short(std::span<ShortWord> words) {
  unfinished_.clear();
  for (ShortWord& word : words) look_up_pending(word);
  for (ShortWord& word : words) {
    word.rank_ = MergeTable::kNoRank;
    if (choose<kInRounds>(word)) unfinished_.push_back(&word);
  }
  while (!unfinished_.empty()) {
    for (ShortWord* const word : unfinished_) merge_chosen(*word);
    for (ShortWord* const word : unfinished_) {
      word->slot_before_ = table_.slot_of(word->pair_before_);
      table_.prefetch_slot(word->slot_before_);
      word->slot_ = table_.slot_of(word->pair_);
      table_.prefetch_slot(word->slot_);
    }
    for (ShortWord* const word : unfinished_) {
      word->keys_[word->before_] =
          ShortWord::key(table_.rank_in(word->slot_before_, word->pair_before_), word->before_);
      word->keys_[word->place_] =
          ShortWord::key(table_.rank_in(word->slot_, word->pair_), word->place_);
    }
    // Choose in a loop of its own: choosing reads keys many at a time, and one that has just been
    // written holds such a read up.
    size_t left = 0;
    for (ShortWord* const word : unfinished_) {
      unfinished_[left] = word;
      left += choose<kInRounds>(*word) ? 1 : 0;
    }
    unfinished_.resize(left);
  }
}

void WordMerger::look_up_pending(ShortWord& word) const {
  for (uint32_t left = word.pending_; left != 0; left &= left - 1) {
    const auto place = static_cast<size_t>(std::countr_zero(left));
    const uint64_t pair = word.pair_at(place);
    word.keys_[place] = ShortWord::key(table_.rank_in(table_.slot_of(pair), pair), place);
  }
}

/// The next merge of the word; false where there is none.
template <bool kInRounds>
bool WordMerger::choose(ShortWord& word) const {
  int32_t key = word.smallest_key();
  if constexpr (kInRounds) key = word.key_of_round(key);
  if (key == ShortWord::kNoKey) return false;
  word.rank_ = static_cast<uint32_t>(key) / kShortBytes;
  word.place_ = static_cast<size_t>(key) % kShortBytes;
  table_.prefetch_result(word.rank_);
  return true;
}

/// Joins the chosen pair, and finds the pairs that its result has with its neighbours.
void WordMerger::merge_chosen(ShortWord& word) const {
  const size_t place = word.place_;
  const uint32_t behind = word.begins_ & (UINT32_MAX - 1) << place;  // never empty
  const auto right = static_cast<size_t>(std::countr_zero(behind));
  const uint32_t next = behind & (behind - 1);
  const uint32_t before = word.begins_ & ((uint32_t{1} << place) - 1);
  word.begins_ ^= uint32_t{1} << right;
  word.keys_[right] = ShortWord::kNoKey;
  const uint32_t piece = table_.result(word.rank_);
  word.pieces_[place] = piece;
  word.before_ =
      before == 0 ? ShortWord::kNoPlace : 31 - static_cast<size_t>(std::countl_zero(before));
  const size_t next_place = static_cast<size_t>(std::countr_zero(next));  // kNoPlace where none
  word.pair_before_ =
      before == 0 ? MergeTable::kNoPair : MergeTable::pack(word.pieces_[word.before_], piece);
  word.pair_ = next == 0 ? MergeTable::kNoPair : MergeTable::pack(piece, word.pieces_[next_place]);
  table_.prefetch_filter(word.pair_before_);
  table_.prefetch_filter(word.pair_);
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
