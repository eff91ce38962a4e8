#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/json/internal/json_part.h"
#include "libmeg/tokenizer/regex/internal/regex_matcher.h"
#include "libmeg/tokenizer/words/internal/metaspace_scan.h"
#include "libmeg/tokenizer/words/internal/pattern_scan.h"

namespace meg::tokenizer {

/// What becomes of the matches of a pattern that splits a text.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Cuts where the script changes, and drops what stands before the first character of a script.
struct ScriptBorders {};

/// A step that cuts texts into smaller ones.
struct SplitStep {
  /// Each match of an expression, each character of a class, or each occurrence of a text, which is
  /// not empty, is a match; of ScriptBorders nothing is.
  std::variant<RegexMatcher, bool (*)(char32_t code_point), std::string, ScriptBorders> pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  ///< The texts between the matches count as the matches.

  /// Matches are looked for in the byte alphabet's characters of the text (byte_alphabet.h), so
  /// that parts may end within a character of the text.
  bool in_alphabet = false;
};

/// Hands the parts of text, none of them empty, to emit in order. text: valid UTF-8, or anything
/// for a step in_alphabet. Errors: RegexMatcher::find's and emit's.
Status split_text(const SplitStep& step, std::string_view text,
                  const std::function<Status(std::string_view part)>& emit);

/// How Metaspace writes spaces.
struct Metaspace {
  enum class Prepend { kNever, kFirst, kAlways };

  std::string replacement{kSpaceSymbol};
  Prepend prepend = Prepend::kAlways;
  bool split = true;

  bool operator==(const Metaspace&) const = default;
};

/// The replacement of a Metaspace, which is one character.
Result<std::string> read_space_replacement(const JsonPart& part);

/// The part "pre_tokenizer" of a tokenizer.json, in the order in which its parts apply: `steps`, of
/// which those behind ByteLevel are in_alphabet, then `words`.
/// Mirrors Hugging Face tokenizers, pre_tokenizers/.
struct PreTokenizer {
  std::vector<SplitStep> steps;

  /// If set, what finds the words that `steps` and `words` find, which may then be left out.
  const KnownSequence* known_steps = nullptr;

  std::optional<Metaspace> metaspace;
  std::vector<SplitStep> spaced_steps;  ///< cut what `metaspace` has made of the texts
  bool byte_level = false;
  bool add_prefix_space = false;  ///< before the texts that the steps leave, ahead of `words`

  /// The regular expression, one of find_known_pattern(), that divides the texts left by the steps
  /// into words; empty: each is one word.
  std::string words;

  std::string json = {};  ///< the part as the file has it

  /// Returns for Tokenizer::rules() the pattern of words if there is nothing else.
  std::string rules() const {
    const bool is_pattern = byte_level && !add_prefix_space && steps.empty();
    return is_pattern ? "words " + words : json;
  }
};

/// kUnsupported, by name, for a kind or an order that libmeg lacks.
Result<PreTokenizer> read_pre_tokenizer(const JsonPart& part);

/// Reads it with the pattern of Mistral's own package in place of the first of a Sequence, or else
/// in front. kUnsupported as above, and for a Metaspace, which transformers replaces by ByteLevel.
/// Mirrors transformers 5, tokenization_utils_tokenizers.py: _patch_mistral_regex().
Result<PreTokenizer> read_mistral_pre_tokenizer(const JsonPart& part);

}  // namespace meg::tokenizer
