#include "libmeg/preprocess/sentences/internal/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "libmeg/preprocess/sentences/python_lower.h"
#include "libmeg/text/ascii.h"
#include "libmeg/text/utf8.h"

namespace meg::preprocess {
namespace {

constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kFinalSigma = 0x3C2;
constexpr char32_t kCapitalIWithDot = 0x130;  // The only one whose lower case is two characters.

uint8_t find_bits(char32_t code_point) {
  const CharacterRun* const behind =
      std::upper_bound(kCharacterRuns, kCharacterRuns + kCharacterRunCount, code_point,
                       [](char32_t value, const CharacterRun& run) { return value < run.first; });
  return (behind - 1)->bits;
}

uint8_t bits_of(char32_t code_point) {
  // Most characters of most texts, found without a search.
  static const std::array<uint8_t, 128> ascii = [] {
    std::array<uint8_t, 128> bits{};
    for (char32_t code = 0; code < bits.size(); ++code) bits[code] = find_bits(code);
    return bits;
  }();
  return code_point < ascii.size() ? ascii[code_point] : find_bits(code_point);
}

/// Whether the capital sigma in [begin, end) ends a word.
bool is_final_sigma(std::string_view text, size_t begin, size_t end) {
  Character before;
  while (begin > 0) {
    begin = text::begin_of_character_before(text, begin);
    before = character_at(text, begin);
    if (!before.is(kIsCaseIgnorable)) break;
  }
  if (!before.is(kIsCased)) return false;
  return !character_at(text, find_without(kIsCaseIgnorable, text, end)).is(kIsCased);
}

}  // namespace

Character character_at(std::string_view text, size_t at) {
  if (at >= text.size()) return {};
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {byte, 1, bits_of(byte)};
  const text::DecodedCodePoint decoded = text::decode_code_point(text.substr(at));
  return {decoded.code_point, decoded.size, bits_of(decoded.code_point)};
}

size_t find_with(CharacterBit bit, std::string_view text, size_t at) {
  while (at < text.size()) {
    const Character character = character_at(text, at);
    if (character.is(bit)) break;
    at += character.size;
  }
  return at;
}

size_t find_without(CharacterBit bit, std::string_view text, size_t at) {
  while (at < text.size()) {
    const Character character = character_at(text, at);
    if (!character.is(bit)) break;
    at += character.size;
  }
  return at;
}

size_t size_without_trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t begin = text::begin_of_character_before(text, end);
    if (!character_at(text, begin).is(kIsStripped)) break;
    end = begin;
  }
  return end;
}

std::string lower(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const char byte = text[at];
    if ((byte & 0x80) == 0) {
      result += text::ascii_lower(byte);
      ++at;
      continue;
    }
    const Character character = character_at(text, at);
    const size_t end = at + character.size;
    // The two places where str.lower() is more than a map of single characters.
    if (character.code_point == kCapitalSigma && is_final_sigma(text, at, end)) {
      text::append_code_point(kFinalSigma, result);
    } else if (character.code_point == kCapitalIWithDot) {
      result += "i\xcc\x87";
    } else {
      const auto code = static_cast<utf8proc_int32_t>(character.code_point);
      text::append_code_point(static_cast<char32_t>(utf8proc_tolower(code)), result);
    }
    at = end;
  }
  return result;
}

}  // namespace meg::preprocess
