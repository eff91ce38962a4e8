#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/models/internal/min_tree.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/fast/merge_pairs.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/fast/segment.h"

namespace meg::tokenizer::sentencepiece::fast {

/// Cuts words into the pieces that joining by score leaves. Belongs to one thread.
class BpeSegmenter {
 public:
  explicit BpeSegmenter(const MergePairs& pairs) : pairs_(pairs) {}

  void begin_text() {}

  /// The segments of a word. Valid until the next call. O(n log n) time.
  std::span<const Segment> segment(std::string_view word);

  /// Whether the word that segment() had last has an unknown segment.
  bool has_unknown() const { return any_unknown(segments_); }

  // The ids of a word never depend on the words around it.

  bool is_fixed(std::string_view) const { return true; }

  template <class Id>
  bool may_pass(const Id*) const {
    return true;
  }

  void pass(size_t) const {}

  template <class Id>
  void catch_up(const Id*) const {}

 private:
  /// Up to this many symbols the best pair is looked for among all.
  static constexpr size_t kFewSymbols = 48;

  struct Part {
    uint32_t symbol;
    uint32_t size;  // bytes
    bool frozen;    // a user-defined symbol
  };

  void split(std::string_view word);
  MergePairs::Merge merge_of(const Part& left, const Part& right) const;
  void merge_few();
  void merge_many();
  void put_segments();

  const MergePairs& pairs_;
  std::vector<Part> parts_;
  std::vector<MergePairs::Merge> merges_;  // of each part with the next
  std::vector<uint32_t> previous_, next_;  // of merge_many
  tokenizer::fast::MinTree tree_;
  std::vector<Segment> segments_;
};

}  // namespace meg::tokenizer::sentencepiece::fast
