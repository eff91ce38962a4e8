#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/words/internal/merge_boundaries.h"
#include "libmeg/tokenizer/words/internal/word_scan.h"

namespace meg::tokenizer::fast {

/// What stands for a space in texts and in pieces.
enum class SpaceMark {
  kSpace,   ///< A space.
  kSymbol,  ///< U+2581; a space is a character like others.
};

/// Finds places where texts without a pretokenizer can be cut into words that are encoded
/// independently: between two characters that no piece contains side by side. Looks at space marks,
/// at ASCII characters that are not letters, and at three-byte characters from U+3000 on (Chinese,
/// Japanese, Korean). Immutable; shared between threads.
class WordSplit {
 public:
  /// pieces: all that can be part of a text's encoding, or of making it.
  WordSplit(const std::vector<std::string_view>& pieces, SpaceMark mark);

  /// Cuts before every space mark, whatever pieces contain.
  void cut_before_marks() { cuts_before_marks_ = cuts_between_marks_ = true; }

  SpaceMark mark() const { return mark_; }

  /// Whether a piece may contain two bytes side by side, at least one of them in ASCII and neither
  /// of a space mark.
  bool are_joined(unsigned char left, unsigned char right) const {
    return joined_[kind(left)][kind(right)];
  }

  // Whether there are cuts before a space mark that follows another character, before one that
  // follows a space mark, and before another character that follows one.

  bool cuts_before_marks() const { return cuts_before_marks_; }

  bool cuts_between_marks() const { return cuts_between_marks_; }

  bool cuts_after_marks() const { return cuts_after_marks_; }

  const MergeBoundaries& boundaries() const { return boundaries_; }

 private:
  static constexpr size_t kAscii = 128;

  /// ASCII characters are told apart, other bytes are not.
  static size_t kind(unsigned char byte) { return byte < kAscii ? byte : kAscii; }

  SpaceMark mark_;
  std::array<std::array<bool, kAscii + 1>, kAscii + 1> joined_{};
  bool cuts_before_marks_ = true;
  bool cuts_between_marks_ = true;
  bool cuts_after_marks_ = true;
  MergeBoundaries boundaries_;
};

}  // namespace meg::tokenizer::fast
