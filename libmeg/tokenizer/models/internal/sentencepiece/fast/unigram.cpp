#include "libmeg/tokenizer/models/internal/sentencepiece/fast/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/model.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/unigram_scores.h"

namespace meg::tokenizer::sentencepiece::fast {

namespace {

constexpr uint32_t kNoStart = UINT32_MAX;

/// Sums below 2^17 are rounded by at most this.
///
/// Half of the distance of 2^-7 between neighbouring floats from 2^16 to 2^17.
constexpr double kLargestRounding = 1.0 / 256;
constexpr float kLargestSum = 131072;

std::vector<PieceTrie::Entry> entries_of(const std::vector<UnigramTable::Piece>& pieces) {
  std::vector<PieceTrie::Entry> entries;
  for (const UnigramTable::Piece& piece : pieces) entries.emplace_back(piece.text, piece.id);
  return entries;
}

/// Sums up to which a word of UnigramSegmenter::kMaxFixedBytes neither passes kScoreLimit nor
/// kLargestSum.
float pass_limit(float largest_score) {
  // A word has at most one segment a byte. Scores so large that one word could leave the exact
  // range make every word be cut anew.
  const float room = largest_score * (UnigramSegmenter::kMaxFixedBytes + 1);
  return room < kLargestSum - kScoreLimit ? kScoreLimit - room : -1;
}

}  // namespace

UnigramTable::UnigramTable(const std::vector<Piece>& pieces, float unknown_score,
                           std::span<const int32_t> byte_ids)
    : trie_(entries_of(pieces)),
      unknown_score_(unknown_score),
      largest_score_(std::abs(unknown_score)) {
  const auto set_score = [this](int32_t id, float score) {
    scores_.resize(std::max(scores_.size(), static_cast<size_t>(id) + 1));
    scores_[static_cast<size_t>(id)] = score;
  };
  for (const Piece& piece : pieces) {
    set_score(piece.id, piece.score);
    largest_score_ = std::max(largest_score_, std::abs(piece.score));
  }
  for (size_t byte = 0; byte < byte_ids.size(); ++byte) {
    const bool is_first = !text::is_continuation_byte(static_cast<char>(byte));
    set_score(byte_ids[byte], is_first ? unknown_score : 0);
  }
}

UnigramSegmenter::UnigramSegmenter(const UnigramTable& table)
    : table_(table), pass_limit_(pass_limit(table.largest_score())) {}

void UnigramSegmenter::begin_text() {
  sum_ = 0;
  begin_passing();
}

void UnigramSegmenter::begin_passing() {
  passed_ = 0;
  may_be_passed_ = -1;
  const double room = static_cast<double>(pass_limit_) - std::abs(sum_);
  if (!(room > 0)) return;
  const double most = room / (table_.largest_score() + kLargestRounding);
  may_be_passed_ = std::max<int64_t>(static_cast<int64_t>(most) - 1, 0);
}

std::span<const Segment> UnigramSegmenter::segment(std::string_view word) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const PieceTrie& trie = table_.trie();
  best_.assign(word.size() + 1, {0, kNoStart, Segment::kUnknown});
  best_[0].score = sum_;
  std::fill_n(two_.begin(), std::min(word.size(), kMaxFixedBytes) + 1, Two{kNever, kNever});
  two_[0].first = 0;
  size_t frontier = 0;  // the farthest end that was reached
  size_t size = 0;
  for (size_t start = 0; start < word.size(); start += size) {
    // The library rebases its sums at this limit. It happens at a position, not at a word, so it
    // must happen at the same one here: rounding decides between ways that are about as good.
    if (std::abs(best_[start].score) > kScoreLimit) keep_small(start, frontier);
    size = text::character_size(word[start]);
    bool has_character = false;
    uint32_t node = trie.first(static_cast<unsigned char>(word[start]));
    for (size_t end = start + 1; node != PieceTrie::kNoNode; ++end) {
      const int32_t id = trie.value(node);
      if (id != PieceTrie::kNoValue) {
        offer(end, table_.score(id), start, id);
        has_character |= end == start + size;
        frontier = std::max(frontier, end);
      }
      if (end == word.size()) break;
      node = trie.next(node, static_cast<unsigned char>(word[end]));
    }
    if (has_character) continue;
    offer(start + size, table_.unknown_score(), start, Segment::kUnknown);
    frontier = std::max(frontier, start + size);
  }
  sum_ = best_.back().score;
  begin_passing();
  segments_.clear();
  for (size_t end = word.size(); end > 0; end = best_[end].start) {
    segments_.push_back({best_[end].id, static_cast<uint32_t>(end) - best_[end].start});
  }
  std::reverse(segments_.begin(), segments_.end());
  return segments_;
}

/// A segment from `start` to `end`.
void UnigramSegmenter::offer(size_t end, float score, size_t start, int32_t id) {
  if (end <= kMaxFixedBytes) {
    const Two& before = two_[start];
    Two& two = two_[end];
    for (const double sum : {before.first + score, before.second + score}) {
      two.second = std::max(two.second, std::min(two.first, sum));
      two.first = std::max(two.first, sum);
    }
  }
  const float sum = score + best_[start].score;
  Best& best = best_[end];
  if (best.start != kNoStart && !(sum > best.score)) return;
  best = {sum, static_cast<uint32_t>(start), id};
}

/// Moves the sums from `start` on, so that the one there is 0.
void UnigramSegmenter::keep_small(size_t start, size_t frontier) {
  const float offset = best_[start].score;
  for (size_t i = start; i <= std::max(start, frontier); ++i) {
    if (i == start || best_[i].start != kNoStart) best_[i].score -= offset;
  }
}

bool UnigramSegmenter::has_unknown() const { return any_unknown(segments_); }

/// What makes a cache possible at all: the library adds the scores of a whole text in float, so the
/// same word may be cut in two ways at two places of a text. Where the best way is better by more
/// than all roundings together can be, it wins at every place.
bool UnigramSegmenter::is_fixed(std::string_view word) {
  if (word.size() > kMaxFixedBytes) return false;
  // The sum of each way is rounded once a segment, of which the other ways have up to one a byte.
  const double roundings = static_cast<double>(segments_.size() + word.size());
  const Two& sums = two_[word.size()];
  return sums.first - sums.second > roundings * kLargestRounding;
}

}  // namespace meg::tokenizer::sentencepiece::fast
