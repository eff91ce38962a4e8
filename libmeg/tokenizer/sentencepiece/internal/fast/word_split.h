#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/cpu.h"
#include "libmeg/tokenizer/bpe/internal/fast/character_joints.h"
#include "libmeg/tokenizer/bpe/internal/fast/word_scan.h"

namespace meg::tokenizer::sentencepiece::fast {

/// Finds places where a text in SpaceForm can be cut into words that are encoded independently:
/// between two characters that no piece contains side by side. Looks at spaces, at ASCII characters
/// that are not letters, and at what CharacterJoints looks at (Chinese, Japanese, Korean).
/// Immutable; shared between threads.
class WordSplit {
 public:
  /// pieces: all that can be part of a text's encoding, in SpaceForm.
  explicit WordSplit(const std::vector<std::string>& pieces);

  // Of two neighbouring bytes:

  /// Whether a piece may contain both side by side.
  bool are_joined(unsigned char left, unsigned char right) const {
    return joined_[kind(left)][kind(right)];
  }

  // Whether no piece contains a space after or before another character, or two of them.

  bool cuts_before_spaces() const { return cuts_before_spaces_; }

  bool cuts_after_spaces() const { return cuts_after_spaces_; }

  bool cuts_between_spaces() const { return !are_joined(' ', ' '); }

  const tokenizer::fast::CharacterJoints& joints() const { return joints_; }

 private:
  static constexpr size_t kAscii = 128;

  /// ASCII characters are told apart, other bytes are not.
  static size_t kind(unsigned char byte) { return byte < kAscii ? byte : kAscii; }

  std::array<std::array<bool, kAscii + 1>, kAscii + 1> joined_{};
  bool cuts_before_spaces_ = true;
  bool cuts_after_spaces_ = true;
  tokenizer::fast::CharacterJoints joints_;
};

/// A tokenizer::fast::WordScanner of a WordSplit's words, which leaves out cuts at the first bytes
/// of each call.
using SplitScanner = size_t (*)(const WordSplit& split, tokenizer::fast::WordScan& scan,
                                uint32_t* starts);

size_t scan_split_portable(const WordSplit& split, tokenizer::fast::WordScan& scan,
                           uint32_t* starts);
size_t scan_split_avx2(const WordSplit& split, tokenizer::fast::WordScan& scan, uint32_t* starts);
size_t scan_split_avx512(const WordSplit& split, tokenizer::fast::WordScan& scan, uint32_t* starts);

/// On processors other than x86-64 always the portable one.
SplitScanner split_scanner(InstructionSet set);

}  // namespace meg::tokenizer::sentencepiece::fast
