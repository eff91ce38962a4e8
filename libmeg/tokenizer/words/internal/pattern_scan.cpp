#include "libmeg/tokenizer/words/internal/pattern_scan.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "libmeg/tokenizer/words/internal/pattern_form.h"
#include "libmeg/tokenizer/words/internal/vector_functions.h"

namespace meg::tokenizer {
namespace {

#define MEG_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define MEG_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define MEG_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define MEG_WORDS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define MEG_CASED(suffix)                                                                         \
  "[^\\r\\n\\p{L}\\p{N}]?" MEG_UPPER "*" MEG_LOWER "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?" MEG_UPPER \
  "+" MEG_LOWER "*" suffix
#define MEG_CL100K                                                       \
  "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| " \
  "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"
#define MEG_WHITESPACE "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

// tiktoken takes `{1,3}+` of cl100k's newest form for possessive, Oniguruma for a repetition of the
// interval: any number of digits is one word. The newest form of cl100k, the form of tiktoken up to
// 0.7, and o200k say the same in other words here and there; a pattern may have several rows.
constexpr KnownPattern kPatterns[] = {
    {"gpt2", kGpt2Pattern, kGpt2Form},
    {"llama3",
     MEG_CONTRACTIONS "|" MEG_WORDS "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" MEG_WHITESPACE,
     kLlama3Form},
    {"qwen2",
     MEG_CONTRACTIONS "|" MEG_WORDS "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" MEG_WHITESPACE,
     kQwen2Form},
    {"qwen3.5",
     MEG_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
                      "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" MEG_WHITESPACE,
     kQwen35Form},
    {"cl100k of Oniguruma", MEG_CL100K, kCl100kOfOnigurumaForm},
    {"cl100k", MEG_CL100K, kCl100kForm},
    {"cl100k",
     "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     kLlama3Form},
    {"cl100k",
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     kLlama3Form},
    {"o200k",
     MEG_CASED(MEG_CONTRACTIONS "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" MEG_WHITESPACE,
     kO200kForm},
    {"v1",
     "[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     kMegatronV1Form},
    {"v2", MEG_CASED("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" MEG_WHITESPACE, kTekkenForm},
};

constexpr KnownSequence kSequences[] = {
    // DeepSeek V3's.
    {{"\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
      "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" MEG_WHITESPACE},
     kDeepSeekForm},
    // StarCoder's, SmolLM's, Granite's.
    {{KnownSequence::kDigits, kGpt2Pattern}, kDigitsForm},
};

#undef MEG_UPPER
#undef MEG_LOWER
#undef MEG_CONTRACTIONS
#undef MEG_WORDS
#undef MEG_CASED
#undef MEG_CL100K
#undef MEG_WHITESPACE

const KnownPattern* find_pattern(std::string_view KnownPattern::*member, std::string_view value) {
  const auto* const found =
      std::find_if(std::begin(kPatterns), std::end(kPatterns),
                   [&](const KnownPattern& pattern) { return pattern.*member == value; });
  return found == std::end(kPatterns) ? nullptr : found;
}

/// Some files, such as DeepSeek's, have line ends as they are, others escape them.
std::string with_escaped_newlines(std::string_view regex) {
  std::string escaped;
  for (const char c : regex) {
    if (c == '\r' || c == '\n') {
      escaped += c == '\r' ? "\\r" : "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

fast::WordScanner KnownPattern::scanner(InstructionSet set) const {
  return fast::vector_functions(set).scan_pattern[form];
}

fast::WordScanner KnownSequence::scanner(InstructionSet set) const {
  return fast::vector_functions(set).scan_pattern[form];
}

const KnownPattern* find_known_pattern(std::string_view regex) {
  return find_pattern(&KnownPattern::regex, with_escaped_newlines(regex));
}

const KnownSequence* find_known_sequence(const std::vector<std::string>& steps) {
  const auto is_same = [&](const KnownSequence& sequence) {
    const auto end = std::find(sequence.steps.begin(), sequence.steps.end(), "");
    return std::equal(sequence.steps.begin(), end, steps.begin(), steps.end(),
                      [](std::string_view known, const std::string& step) {
                        return known == with_escaped_newlines(step);
                      });
  };
  const auto* const found = std::find_if(std::begin(kSequences), std::end(kSequences), is_same);
  return found == std::end(kSequences) ? nullptr : found;
}

const KnownPattern* find_pattern_by_name(std::string_view name) {
  return find_pattern(&KnownPattern::name, name);
}

}  // namespace meg::tokenizer
