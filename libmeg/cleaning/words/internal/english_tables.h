#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meg::cleaning {

/// What is known of a character, as bits; spaCy's classes are those of its English tokenizer.
enum CharacterFlags : uint32_t {
  kSpace = 1U << 0,   ///< Python's str.isspace
  kPrefix = 1U << 1,  ///< spaCy splits it off the front of a word; `+` depends on what follows.
  kSuffix = 1U << 2,  ///< ... off the end
  kInfix = 1U << 3,   ///< ... out of the middle
  kSpacyAlpha = 1U << 4,
  kSpacyLower = 1U << 5,
  kSpacyUpper = 1U << 6,
  kBeforeDot = 1U << 7,  ///< A dot after it is split off.
  kQuote = 1U << 8,
  kCurrency = 1U << 9,
  kUnitEnd = 1U << 10,  ///< The last character of a unit.
  kLetter = 1U << 11,   ///< Python's str.isalpha
  kUnicodePunctuation = 1U << 12,
  kPunctuation = 1U << 13,  ///< datatrove's PUNCTUATION
  kTerminal = 1U << 14,     ///< datatrove's TERMINAL_PUNCTUATION
  kSentenceEnd = 1U << 15,  ///< of spaCy's sentencizer
  kNonspacingMark = 1U << 16,
  kDigit = 1U << 17,
  kWord = 1U << 18,  ///< \w of Python's re
};

struct CharacterRange {
  char32_t first, last;
  uint32_t flags;
};

/// A word that is split, or kept, as spaCy's exceptions say.
struct SplitWord {
  std::string word;
  std::string_view tokens;  ///< With a space between them.
};

/// What english.txt says.
struct EnglishTables {
  std::vector<CharacterRange> ranges;  ///< In ascending order.
  std::vector<SplitWord> words;
  std::vector<std::string_view> units;  ///< That are split off numbers.
};

const EnglishTables& english_tables();

/// The text of english.txt.
std::string_view english_text();

}  // namespace meg::cleaning
