// Words of a PatternForm, one character after another. Everything here is static, as its users are
// compiled for different instruction sets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "libmeg/tokenizer/unicode/internal/character_class.h"
#include "libmeg/tokenizer/words/internal/block_characters.h"
#include "libmeg/tokenizer/words/internal/pattern_form.h"

namespace meg::tokenizer {
namespace {

using Byte = unsigned char;

inline constexpr std::array<CharacterClass, 128> kAscii = [] {
  std::array<CharacterClass, 128> classes{};
  for (size_t c = 0; c < 128; ++c) {
    if (c >= 'a' && c <= 'z') classes[c] = CharacterClass::kLower;
    if (c >= 'A' && c <= 'Z') classes[c] = CharacterClass::kUpper;
    if (c >= '0' && c <= '9') classes[c] = CharacterClass::kNumber;
    if (c < ' ' || c == 0x7f) classes[c] = CharacterClass::kControl;
    if (c == ' ' || (c >= '\t' && c <= '\r')) classes[c] = CharacterClass::kSpace;
  }
  return classes;
}();

using Character = fast::Character<CharacterClass>;

/// class_of: character_class, or another one that says the same of ASCII.
template <auto class_of = character_class>
inline Character character_at(const Byte* p, const Byte* end) {
  if (*p < 0x80) return {kAscii[*p], 1};
  return fast::decode<class_of>(p, static_cast<size_t>(end - p));
}

constexpr bool is_newline(Byte c) { return c == '\n' || c == '\r'; }

/// What words without regard to case consist of.
template <PatternForm kForm>
constexpr bool in_word(CharacterClass kind) {
  return is_letter(kind) || (kForm.marks_in_words && kind == CharacterClass::kMark);
}

/// Neither whitespace nor number nor of words; with cased words a mark, too.
template <PatternForm kForm>
constexpr bool is_other(CharacterClass kind) {
  return kind != CharacterClass::kSpace && kind != CharacterClass::kNumber && !in_word<kForm>(kind);
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
template <auto class_of = character_class, class Wanted>
inline const Byte* run_end(const Byte* p, const Byte* end, const Wanted& wanted) {
  while (p < end) {
    const Character c = character_at<class_of>(p, end);
    if (!wanted(c.kind)) break;
    p += c.length;
  }
  return p;
}

/// The end of the contraction at p; p if there is none. The long s counts as an s.
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

/// The end of U*L+|U+L* from q on; null if neither matches.
///
/// Letters without case and marks are in both classes, so U* also takes what L+ needs. As a
/// backtracking matcher does: where a lower-case letter follows U*, L+ takes it and continues;
/// otherwise U* gives back its last character that L+ can have too, after which only upper-case
/// letters stand; without any such character U+L* takes the run.
inline const Byte* cased_end(const Byte* q, const Byte* end) {
  const Byte* both_end = nullptr;  // after the last character of U* that L+ can take over
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
    if (in_word<kForm>(c.kind)) return run_end(behind, end, in_word<kForm>);
    if (!is_prefix || behind == end) return nullptr;
    const Character next = character_at(behind, end);
    return in_word<kForm>(next.kind) ? run_end(behind + next.length, end, in_word<kForm>) : nullptr;
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

/// The end of ` ?[^\s\p{L}\p{N}]+[\r\n]*`; null if it does not match.
template <PatternForm kForm>
inline const Byte* others_end(const Byte* p, const Byte* end) {
  const Byte* const first = *p == ' ' ? p + 1 : p;
  p = run_end(first, end, is_other<kForm>);
  if (p == first) return nullptr;
  while (p < end && (is_newline(*p) || (kForm.slashes && *p == '/'))) ++p;
  return p;
}

/// Where the whitespace at p ends, which is there. is_end: whether the text counts as ended there.
template <PatternForm kForm, class IsEnd>
inline const Byte* whitespace_end(const Byte* p, const Byte* end, const IsEnd& is_end) {
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
    if (kForm.newline_words && is_newline(*last)) newline_end = at;
  }
  if (kForm.whole_final_space && at == end) return end;
  if (newline_end != nullptr) return newline_end;
  return last == p || is_end(at) ? at : last;
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
  return whitespace_end<kForm>(p, end, [end](const Byte* at) { return at == end; });
}

}  // namespace
}  // namespace meg::tokenizer
