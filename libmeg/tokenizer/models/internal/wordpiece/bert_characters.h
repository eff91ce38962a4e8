#pragma once

#include <cstdint>

#include "libmeg/tokenizer/unicode/internal/bert_tables.h"

namespace meg::tokenizer::wordpiece {

/// What becomes of a character of a text.
enum class CharacterKind : uint8_t {
  kWord = 0,
  kRemoved = 1,  ///< NUL, U+FFFD, controls and formats
  kSpace = 2,
  kChinese = 3,      ///< A word of its own, as if between spaces.
  kPunctuation = 4,  ///< A word of its own.
};

/// The properties of a code point that BERT tokenization queries in Python; the first line of
/// bert_property.ranges states the Unicode version.
class CharacterProperties {
 public:
  /// code_point: below 0x110000.
  explicit CharacterProperties(char32_t code_point)
      : bits_(two_stage_value(bert_property_tables::kStage1, bert_property_tables::kStage2,
                              code_point)) {}

  CharacterKind kind() const { return static_cast<CharacterKind>(bits_ & 7); }

  /// Whether it has upper or lower case and is not skipped when the form of a sigma is decided.
  bool cased() const { return (bits_ & 8) != 0; }

  /// Is passed over there.
  bool case_ignorable() const { return (bits_ & 16) != 0; }

  /// Keeps a canonical order among its like, though it is no accent that is removed.
  bool ordered() const { return (bits_ & 32) != 0; }

  /// Is an accent that no other character is ordered past.
  bool starting_mark() const { return (bits_ & 64) != 0; }

 private:
  uint8_t bits_;
};

/// The combining class of a code point that is ordered(); 0 of others.
inline uint8_t combining_class(char32_t code_point) {
  return two_stage_value(bert_combining_class_tables::kStage1, bert_combining_class_tables::kStage2,
                         code_point);
}

inline constexpr char32_t kCapitalSigma = 0x3A3;
inline constexpr char32_t kSmallSigma = 0x3C3;
inline constexpr char32_t kFinalSigma = 0x3C2;

/// Appends the lower case of a code point, decomposed and without accents. A capital sigma becomes
/// a small one, whatever surrounds it.
template <class Sequence>
void append_folded(char32_t code_point, Sequence& to) {
  constexpr char32_t kHangul = 0xAC00;
  constexpr char32_t kHangulCount = 11172;
  if (code_point - kHangul < kHangulCount) {
    const char32_t syllable = code_point - kHangul;
    to.push_back(0x1100 + syllable / 588);
    to.push_back(0x1161 + syllable % 588 / 28);
    if (syllable % 28 != 0) to.push_back(0x11A7 + syllable % 28);
    return;
  }
  const uint16_t place =
      two_stage_value(bert_fold_tables::kStage1, bert_fold_tables::kStage2, code_point);
  if (place == 0) {
    to.push_back(code_point);
    return;
  }
  const char32_t* const sequence = &bert_fold_tables::kSequences[place];
  for (char32_t i = 1; i <= sequence[0]; ++i) to.push_back(sequence[i]);
}

}  // namespace meg::tokenizer::wordpiece
