#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/tokenizer/models/internal/piece_trie.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/fast/segment.h"

namespace meg::tokenizer::sentencepiece::fast {

/// The pieces and scores of a unigram model, independent of their file. Immutable; shared between
/// threads.
class UnigramTable {
 public:
  struct Piece {
    std::string text;
    int32_t id;
    float score;
  };

  /// byte_ids: those that stand for the bytes of unknown characters, by byte; empty where there are
  /// none.
  UnigramTable(const std::vector<Piece>& pieces, float unknown_score,
               std::span<const int32_t> byte_ids);

  const PieceTrie& trie() const { return trie_; }

  /// What an id adds to the sum. Of the bytes of an unknown character the first adds its score.
  float score(int32_t id) const { return scores_[static_cast<size_t>(id)]; }

  float unknown_score() const { return unknown_score_; }

  /// The largest absolute value of a score.
  float largest_score() const { return largest_score_; }

 private:
  PieceTrie trie_;
  std::vector<float> scores_;  // by id
  float unknown_score_;
  float largest_score_;
};

/// Cuts the words of a text into the pieces of the largest sum of scores. The sum is kept from word
/// to word, in float as in the library, where its rounding can decide between segmentations that
/// are about as good. Belongs to one thread.
class UnigramSegmenter {
 public:
  /// Words of more bytes never are is_fixed().
  static constexpr size_t kMaxFixedBytes = 64;

  explicit UnigramSegmenter(const UnigramTable& table);

  void begin_text();

  /// The segments of the text's next word. Valid until the next call. After catch_up().
  std::span<const Segment> segment(std::string_view word);

  /// Whether the word that segment() had last has an unknown segment.
  bool has_unknown() const;

  /// Whether the segments of that word do not depend on its context, as long as may_pass() and
  /// unknown ones are written as ids of bytes.
  bool is_fixed(std::string_view word);

  /// Whether the text's next word, if it is_fixed(), may be passed over by the ids of its segments.
  /// end: of the ids so far.
  template <class Id>
  bool may_pass(const Id* end) {
    if (passed_ > may_be_passed_) catch_up(end);
    return passed_ <= may_be_passed_;
  }

  /// Counts a word's ids, which follow those of the previous words.
  void pass(size_t count) { passed_ += static_cast<int64_t>(count); }

  /// Adds the scores of the counted ids to the sum. end: the end of the ids so far.
  template <class Id>
  void catch_up(const Id* end) {
    float sum = sum_;
    for (const Id* id = end - passed_; id < end; ++id) {
      sum += table_.score(static_cast<int32_t>(*id));
    }
    sum_ = sum;
    begin_passing();
  }

 private:
  struct Best {
    float score;
    uint32_t start;  // of the last segment
    int32_t id;
  };

  /// Sums of the two best ways from the beginning of the word, without rounding to float.
  struct Two {
    double first, second;
  };

  void offer(size_t end, float score, size_t start, int32_t id);
  void keep_small(size_t start, size_t frontier);

  void begin_passing();

  const UnigramTable& table_;
  const float pass_limit_;
  float sum_ = 0;               // of the words' segments, but for those passed since
  int64_t passed_ = 0;          // segments
  int64_t may_be_passed_ = -1;  // so many that the sum is below pass_limit_ whatever they are
  std::vector<Best> best_;
  std::array<Two, kMaxFixedBytes + 1> two_;  // by end
  std::vector<Segment> segments_;
};

}  // namespace meg::tokenizer::sentencepiece::fast
