#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace meg::tokenizer::fast {

/// Maximum number of bytes that one call of a scanner processes, and thus also of starts that it
/// finds.
inline constexpr size_t kScanBytes = 8192;

/// Room that a scanner needs in `starts`: it stores in groups, past the last start.
inline constexpr size_t kScanRoom = kScanBytes + 64;

class MergeBoundaries;
class WordSplit;

/// Where the scan of one text stands.
///
/// GPT-2's pretokenizer is a regular expression whose words can be told from the classes (letter,
/// number, whitespace, other) of a byte's neighbours, so 64 bytes are decided at once with bit
/// operations; see word_scan_impl.h.
struct WordScan {
  explicit WordScan(std::string_view text)
      : position(text.data()), end(text.data() + text.size()) {}

  const char* position;  ///< First byte not scanned yet; the start of a character.
  const char* end;       ///< 64 bytes after it must be readable.

  /// If set, scanners that find words in blocks also cut these, but for the last one of a call,
  /// whose end is unknown.
  const MergeBoundaries* boundaries = nullptr;

  const WordSplit* split = nullptr;  ///< for VectorFunctions::scan_split

  /// What the scanner keeps of the bytes before position, 0 at the start of the text: GPT-2's keeps
  /// the class of the character there, one of the bits below.
  uint32_t previous = 0;

  /// Left over from a contraction ('ll) that reaches past position: bit i stands for position + i.
  uint64_t forced_starts = 0;
  uint64_t suppressed_starts = 0;

  static constexpr uint32_t kLetter = 1;
  static constexpr uint32_t kNumber = 2;
  static constexpr uint32_t kSpace = 4;  ///< any whitespace
  static constexpr uint32_t kOther = 8;
  static constexpr uint32_t kBlank = 16;  ///< U+0020; set beside kSpace
};

/// Scans at most kScanBytes further bytes and writes the starts of words, and of the parts that
/// scan.boundaries cuts these into, as distances from scan.position before the call, in order.
/// starts: kScanRoom entries. Returns their number. The text's first byte always starts a word.
/// Text that is not UTF-8 gives some words or other, and no byte outside the text plus 64 is read.
using WordScanner = size_t (*)(WordScan& scan, uint32_t* starts);

}  // namespace meg::tokenizer::fast
