// Patterns in the manner of cl100k and o200k. Each is one choice of PatternForm; the words of all
//
//   contractions     (?i:'s|'t|'re|'ve|'m|'ll|'d)
//   words            [^\r\n\p{L}\p{N}]?\p{L}+
//             cased  [^\r\n\p{L}\p{N}]?U*L+|[^\r\n\p{L}\p{N}]?U+L*
//                    where U is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and L is [\p{Ll}\p{Lm}\p{Lo}\p{M}]
//   numbers          \p{N}{1,3} or \p{N}
//   others            ?[^\s\p{L}\p{N}]+[\r\n]* or  ?[^\s\p{L}\p{N}]+[\r\n/]*
//   whitespace       \s*[\r\n]+|\s+(?!\S)|\s+
//
// in this order, are found from the classes of characters alone.
#include "libmeg/tokenizer/pretokenizer/internal/pattern_scan.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "libmeg/tokenizer/internal/character_class.h"

namespace meg::tokenizer {
namespace {

using fast::WordScan;

struct PatternForm {
  bool first_contractions = false;   // in front of the words
  bool suffix_contractions = false;  // behind each word
  bool cased_words = false;
  int max_digits = 3;
  bool slashes = false;            // other characters take / behind them
  bool whole_final_space = false;  // \s++$ in front of whitespace
};

using Byte = unsigned char;

constexpr std::array<CharacterClass, 128> kAscii = [] {
  std::array<CharacterClass, 128> classes{};
  for (size_t c = 0; c < 128; ++c) {
    if (c >= 'a' && c <= 'z') classes[c] = CharacterClass::kLower;
    if (c >= 'A' && c <= 'Z') classes[c] = CharacterClass::kUpper;
    if (c >= '0' && c <= '9') classes[c] = CharacterClass::kNumber;
    if (c == ' ' || (c >= '\t' && c <= '\r')) classes[c] = CharacterClass::kSpace;
  }
  return classes;
}();

struct Character {
  CharacterClass kind;
  uint32_t length;  // bytes
};

/// The character at p, which is before end. Of text that is not UTF-8, a byte is one character.
[[gnu::noinline]] Character decode(const Byte* p, const Byte* end) {
  const uint32_t lead = p[0];
  const auto room = static_cast<size_t>(end - p);
  char32_t c = 0;
  uint32_t length = 1;
  if (lead < 0xe0) {
    if (lead < 0xc2 || room < 2) return {CharacterClass::kOther, 1};
    c = ((lead & 0x1f) << 6) | (p[1] & 0x3f);
    length = 2;
  } else if (lead < 0xf0) {
    if (room < 3) return {CharacterClass::kOther, 1};
    c = ((lead & 0x0f) << 12) | ((p[1] & 0x3fu) << 6) | (p[2] & 0x3f);
    length = 3;
  } else {
    if (room < 4) return {CharacterClass::kOther, 1};
    c = ((lead & 0x07) << 18) | ((p[1] & 0x3fu) << 12) | ((p[2] & 0x3fu) << 6) | (p[3] & 0x3f);
    length = 4;
  }
  return {character_class(c), length};
}

inline Character character_at(const Byte* p, const Byte* end) {
  if (*p < 0x80) return {kAscii[*p], 1};
  return decode(p, end);
}

constexpr bool is_letter(CharacterClass kind) { return kind >= CharacterClass::kUpper; }

constexpr bool is_newline(Byte c) { return c == '\n' || c == '\r'; }

/// Neither whitespace nor letter nor number.
constexpr bool is_other(CharacterClass kind) {
  return kind == CharacterClass::kOther || kind == CharacterClass::kMark;
}

/// \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}
constexpr bool in_upper(CharacterClass kind) {
  return kind == CharacterClass::kUpper || kind == CharacterClass::kLetter ||
         kind == CharacterClass::kMark;
}

/// \p{Ll}\p{Lm}\p{Lo}\p{M}
constexpr bool in_lower(CharacterClass kind) {
  return kind == CharacterClass::kLower || kind == CharacterClass::kLetter ||
         kind == CharacterClass::kMark;
}

/// Where the characters at p end that `wanted` holds for.
template <class Wanted>
inline const Byte* run_end(const Byte* p, const Byte* end, const Wanted& wanted) {
  while (p < end) {
    const Character c = character_at(p, end);
    if (!wanted(c.kind)) break;
    p += c.length;
  }
  return p;
}

/// Where the contraction at p ends; p where there is none. The long s is an s in lower case.
inline const Byte* contraction_end(const Byte* p, const Byte* end) {
  if (end - p < 2 || *p != '\'') return p;
  const int first = p[1] | 0x20;
  if (p[1] < 0x80 && (first == 's' || first == 't' || first == 'm' || first == 'd')) return p + 2;
  if (end - p < 3) return p;
  if (p[1] == 0xc5 && p[2] == 0xbf) return p + 3;
  const int second = p[2] | 0x20;
  const bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                   (first == 'l' && second == 'l');
  return two && p[1] < 0x80 && p[2] < 0x80 ? p + 3 : p;
}

inline const Byte* numbers_end(const Byte* p, const Byte* end, int max_digits) {
  for (int i = 0; i < max_digits && p < end; ++i) {
    const Character c = character_at(p, end);
    if (c.kind != CharacterClass::kNumber) break;
    p += c.length;
  }
  return p;
}

/// Where U*L+|U+L* ends from q on; null where neither matches.
///
/// Letters without case and marks are in both classes, so U* also takes what L+ needs. As a
/// backtracking matcher does: where a lower-case letter follows U*, L+ takes it and goes on;
/// otherwise U* gives back its last character that L+ can have too, behind which only upper-case
/// letters stand; without any such character U+L* takes the run.
inline const Byte* cased_end(const Byte* q, const Byte* end) {
  const Byte* both_end = nullptr;  // behind the last character of U* that L+ can take over
  const Byte* p = q;
  while (p < end) {
    const Character c = character_at(p, end);
    if (!in_upper(c.kind)) {
      if (in_lower(c.kind)) return run_end(p + c.length, end, in_lower);
      break;
    }
    p += c.length;
    if (c.kind != CharacterClass::kUpper) both_end = p;
  }
  if (both_end != nullptr) return both_end;
  return p > q ? p : nullptr;
}

/// The same where U+L* counts for nothing.
inline bool ends_in_lower(const Byte* q, const Byte* end) {
  for (const Byte* p = q; p < end;) {
    const Character c = character_at(p, end);
    if (in_lower(c.kind)) return true;
    if (!in_upper(c.kind)) return false;
    p += c.length;
  }
  return false;
}

/// Where the word at p ends; null where none begins there. c: the character at p.
template <PatternForm kForm>
inline const Byte* word_end(const Byte* p, const Byte* end, Character c) {
  const Byte* const behind = p + c.length;
  const bool is_prefix = !is_letter(c.kind) && c.kind != CharacterClass::kNumber && !is_newline(*p);
  if constexpr (!kForm.cased_words) {
    if (is_letter(c.kind)) return run_end(behind, end, is_letter);
    if (!is_prefix || behind == end) return nullptr;
    const Character next = character_at(behind, end);
    return is_letter(next.kind) ? run_end(behind + next.length, end, is_letter) : nullptr;
  } else {
    const Byte* word = nullptr;
    if (is_letter(c.kind)) {
      word = cased_end(p, end);
    } else if (is_prefix) {
      // A mark may also begin a word itself; U*L+ comes before U+L*.
      const bool alone = c.kind == CharacterClass::kMark && !ends_in_lower(behind, end);
      word = alone ? behind : cased_end(behind, end);
    }
    if (word == nullptr) return nullptr;
    return kForm.suffix_contractions ? contraction_end(word, end) : word;
  }
}

/// Where ` ?[^\s\p{L}\p{N}]+[\r\n]*` ends; null where it does not match.
template <PatternForm kForm>
inline const Byte* others_end(const Byte* p, const Byte* end) {
  const Byte* const first = *p == ' ' ? p + 1 : p;
  p = run_end(first, end, is_other);
  if (p == first) return nullptr;
  while (p < end && (is_newline(*p) || (kForm.slashes && *p == '/'))) ++p;
  return p;
}

/// Where the whitespace at p ends, which is there.
template <PatternForm kForm>
inline const Byte* whitespace_end(const Byte* p, const Byte* end) {
  // \s*[\r\n]+ first: \s* takes the whole run and gives back up to the run's last line end.
  // \s+(?!\S) next: the run but for its last character, or all of it at the end of the text.
  // \s+ last: the single character that is left over.
  const Byte* newline_end = nullptr;
  const Byte* last = p;  // the run's last character
  const Byte* at = p;
  while (at < end) {
    const Character c = character_at(at, end);
    if (c.kind != CharacterClass::kSpace) break;
    last = at;
    at += c.length;
    if (is_newline(*last)) newline_end = at;
  }
  if (kForm.whole_final_space && at == end) return end;
  if (newline_end != nullptr) return newline_end;
  return at == end || last == p ? at : last;
}

/// Where the first word of [p, end) ends, which is not empty.
template <PatternForm kForm>
inline const Byte* first_word_end(const Byte* p, const Byte* end) {
  if constexpr (kForm.first_contractions) {
    if (const Byte* behind = contraction_end(p, end); behind != p) return behind;
  }
  const Character c = character_at(p, end);
  if (const Byte* behind = word_end<kForm>(p, end, c)) return behind;
  if (c.kind == CharacterClass::kNumber) return numbers_end(p, end, kForm.max_digits);
  if (const Byte* behind = others_end<kForm>(p, end)) return behind;
  return whitespace_end<kForm>(p, end);
}

template <PatternForm kForm>
size_t scan_pattern(WordScan& scan, uint32_t* starts) {
  const auto* const first = reinterpret_cast<const Byte*>(scan.position);
  const auto* const end = reinterpret_cast<const Byte*>(scan.end);
  const Byte* const stop =
      first + std::min<ptrdiff_t>(end - first, static_cast<ptrdiff_t>(fast::kScanBytes));
  const Byte* p = first;
  size_t count = 0;
  while (p < stop) {
    // A word that begins before `stop` may end far behind it; the next call goes on from there. So
    // at most kScanBytes words are found, each of at least one byte.
    starts[count++] = static_cast<uint32_t>(p - first);
    p = first_word_end<kForm>(p, end);
  }
  scan.position = reinterpret_cast<const char*>(p);
  return count;
}

constexpr PatternForm kLlama3{.first_contractions = true};
constexpr PatternForm kQwen2{.first_contractions = true, .max_digits = 1};
constexpr PatternForm kCl100k{.first_contractions = true, .whole_final_space = true};
constexpr PatternForm kCl100kOfOniguruma{.first_contractions = true,
                                         .max_digits = std::numeric_limits<int>::max(),
                                         .whole_final_space = true};
constexpr PatternForm kO200k{.suffix_contractions = true, .cased_words = true, .slashes = true};
constexpr PatternForm kTekken{.cased_words = true, .max_digits = 1, .slashes = true};
constexpr PatternForm kMegatronV1{.max_digits = 1};

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
    {"llama3",
     MEG_CONTRACTIONS "|" MEG_WORDS "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" MEG_WHITESPACE,
     scan_pattern<kLlama3>},
    {"qwen2",
     MEG_CONTRACTIONS "|" MEG_WORDS "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" MEG_WHITESPACE,
     scan_pattern<kQwen2>},
    {"cl100k of Oniguruma", MEG_CL100K, scan_pattern<kCl100kOfOniguruma>},
    {"cl100k", MEG_CL100K, scan_pattern<kCl100k>},
    {"cl100k",
     "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     scan_pattern<kLlama3>},
    {"cl100k",
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     scan_pattern<kLlama3>},
    {"o200k",
     MEG_CASED(MEG_CONTRACTIONS "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" MEG_WHITESPACE,
     scan_pattern<kO200k>},
    {"v1",
     "[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     scan_pattern<kMegatronV1>},
    {"v2", MEG_CASED("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" MEG_WHITESPACE,
     scan_pattern<kTekken>},
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

}  // namespace

const KnownPattern* find_known_pattern(std::string_view regex) {
  return find_pattern(&KnownPattern::regex, regex);
}

const KnownPattern* find_pattern_by_name(std::string_view name) {
  return find_pattern(&KnownPattern::name, name);
}

}  // namespace meg::tokenizer
