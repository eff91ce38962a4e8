#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/cpu.h"
#include "libmeg/tokenizer/words/internal/word_scan.h"

namespace meg::tokenizer {

/// A regular expression that pretokenizers split text by and that has code of its own here.
struct KnownPattern {
  std::string_view name;   ///< such as "cl100k"
  std::string_view regex;  ///< as tokenizer.json or tiktoken writes it
  size_t form;             ///< in kPatternForms, or one of those after them

  fast::WordScanner scanner(InstructionSet set) const;
};

/// GPT-2's pattern, as ByteLevel applies it.
inline constexpr std::string_view kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/// The pattern of a regular expression of a tokenizer.json, as Oniguruma reads it; null where
/// libmeg has no code for it.
const KnownPattern* find_known_pattern(std::string_view regex);

/// The steps of a pre-tokenizer, each of which isolates its matches within the parts that those
/// before it leave, that have code of their own here.
struct KnownSequence {
  /// Regular expressions, or kDigits; the last ones may be empty.
  std::array<std::string_view, 3> steps;
  size_t form;  ///< as KnownPattern's

  /// Stands for Digits with individual_digits, whose numbers are not those of \p{N}.
  static constexpr std::string_view kDigits = "Digits";

  fast::WordScanner scanner(InstructionSet set) const;
};

/// The sequence of the steps of a tokenizer.json; null where libmeg has no code for it.
const KnownSequence* find_known_sequence(const std::vector<std::string>& steps);

/// The pattern of a name; null if there is none.
const KnownPattern* find_pattern_by_name(std::string_view name);

}  // namespace meg::tokenizer
