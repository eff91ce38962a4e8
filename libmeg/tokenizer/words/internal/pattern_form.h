#pragma once

#include <cstddef>
#include <iterator>
#include <limits>

namespace meg::tokenizer {

/// A pattern in the manner of cl100k and o200k: one choice of the following. The words of all
///
///   contractions     (?i:'s|'t|'re|'ve|'m|'ll|'d)
///   words            [^\r\n\p{L}\p{N}]?\p{L}+
///       with marks   [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+
///             cased  [^\r\n\p{L}\p{N}]?U*L+|[^\r\n\p{L}\p{N}]?U+L*
///                    where U is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and L is [\p{Ll}\p{Lm}\p{Lo}\p{M}]
///   numbers          \p{N}{1,3} or \p{N}
///   others            ?[^\s\p{L}\p{N}]+[\r\n]* or  ?[^\s\p{L}\p{N}]+[\r\n/]*
///       with marks    ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*
///   whitespace       \s*[\r\n]+|\s+(?!\S)|\s+
///
/// in this order, are found from the classes of characters alone.
struct PatternForm {
  bool first_contractions = false;   // in front of the words
  bool suffix_contractions = false;  // after each word
  bool cased_words = false;
  bool marks_in_words = false;  // not with cased words, which have them anyway
  int max_digits = 3;
  bool slashes = false;            // other characters take / after them
  bool whole_final_space = false;  // \s++$ in front of whitespace
  bool newline_words = true;       // \s*[\r\n]+ in front of whitespace
};

inline constexpr int kAnyDigits = std::numeric_limits<int>::max();

/// What a scanner is compiled for; KnownPattern::form is an index.
inline constexpr PatternForm kPatternForms[] = {
    {.first_contractions = true},
    {.first_contractions = true, .max_digits = 1},
    {.first_contractions = true, .whole_final_space = true},
    {.first_contractions = true, .max_digits = kAnyDigits, .whole_final_space = true},
    {.suffix_contractions = true, .cased_words = true, .slashes = true},
    {.cased_words = true, .max_digits = 1, .slashes = true},
    {.max_digits = 1},
    {.first_contractions = true, .marks_in_words = true, .max_digits = 1},
};

inline constexpr size_t kLlama3Form = 0;
inline constexpr size_t kQwen2Form = 1;
inline constexpr size_t kCl100kForm = 2;
inline constexpr size_t kCl100kOfOnigurumaForm = 3;
inline constexpr size_t kO200kForm = 4;
inline constexpr size_t kTekkenForm = 5;
inline constexpr size_t kMegatronV1Form = 6;
inline constexpr size_t kQwen35Form = 7;

// After these: DeepSeekWords, DigitsWords, and GPT-2's pattern by the classes of character_class.h.
inline constexpr size_t kDeepSeekForm = std::size(kPatternForms);
inline constexpr size_t kDigitsForm = kDeepSeekForm + 1;
inline constexpr size_t kGpt2Form = kDigitsForm + 1;
inline constexpr size_t kPatterns = kGpt2Form + 1;

}  // namespace meg::tokenizer
