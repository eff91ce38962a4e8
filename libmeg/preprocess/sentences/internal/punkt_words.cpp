#include "libmeg/preprocess/sentences/internal/punkt_words.h"

#include <algorithm>

#include "libmeg/preprocess/sentences/internal/characters.h"

namespace meg::preprocess {
namespace {

/// nltk's sets and rules of words (PunktLanguageVars) written out, as its regular expressions look
/// ahead, which RE2 does not.
constexpr std::u32string_view kPunctuationBesideWords =
    U")\";}]*:@'({[?!\u2018\u2019\u201c\u201d\u00ab\u00bb";

/// Characters that begin no word.
constexpr std::string_view kNoWordBegins = "(\"`{[:;&#*@)}]-,";

size_t behind_run_of(char same, std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(same, at), text.size());
}

/// Returns the place after periods with a whitespace between any two of them, at least three; `at`
/// where there are none.
size_t behind_spaced_periods(std::string_view line, size_t at) {
  size_t end = at;
  for (int periods = 1; at < line.size() && line[at] == '.'; ++periods) {
    if (periods >= 3) end = at + 1;
    const Character space = character_at(line, at + 1);
    if (!space.is(kIsSpace)) break;
    at += 1 + space.size;
  }
  return end;
}

/// Returns the place after dashes or periods that are a word of their own; `at` where there are
/// none.
size_t behind_multi_punctuation(std::string_view line, size_t at) {
  const std::string_view rest = line.substr(at);
  if (rest.starts_with("--")) return behind_run_of('-', line, at);
  if (rest.starts_with("..")) return behind_run_of('.', line, at);
  return behind_spaced_periods(line, at);
}

/// Whether a word may end at `at`; a comma that ends a word is not part of it.
bool may_end_word(std::string_view line, size_t at, bool is_behind_comma = false) {
  const Character next = character_at(line, at);
  if (next.size == 0 || next.is(kIsSpace)) return true;
  if (is_punctuation_beside_words(next.code_point)) return true;
  if (behind_multi_punctuation(line, at) > at) return true;
  return next.code_point == ',' && !is_behind_comma && may_end_word(line, at + 1, true);
}

/// The end of the word that begins at `at`, which is no whitespace.
size_t word_end(std::string_view line, size_t at) {
  const size_t end = behind_multi_punctuation(line, at);
  if (end > at) return end;
  const bool is_single = kNoWordBegins.find(line[at]) != kNoWordBegins.npos;
  at += character_at(line, at).size;
  while (!is_single && !may_end_word(line, at)) at += character_at(line, at).size;
  return at;
}

/// -?[.,]?\d[\d,.-]*\.?
bool is_number(std::string_view text) {
  size_t at = text.starts_with('-') ? 1 : 0;
  if (at < text.size() && (text[at] == '.' || text[at] == ',')) ++at;
  if (!character_at(text, at).is(kIsDigit)) return false;
  while (at < text.size()) {
    const Character next = character_at(text, at);
    const bool is_mark = text[at] == ',' || text[at] == '.' || text[at] == '-';
    if (!is_mark && !next.is(kIsDigit)) return false;
    at += next.size;
  }
  return true;
}

}  // namespace

PunktWord::PunktWord(std::string_view word) : text(word), type(lower(word)) {
  // nltk's name for all numbers: its tables were trained with it.
  if (is_number(type)) type = "##number##";
}

bool PunktWord::is_initial() const {
  const Character first = character_at(text, 0);
  return first.is(kIsLetter) && text.substr(first.size) == ".";
}

bool PunktWord::begins_upper() const { return character_at(text, 0).is(kIsUpper); }

bool PunktWord::begins_lower() const { return character_at(text, 0).is(kIsLower); }

std::string_view PunktWord::type_without_period() const {
  const std::string_view all = type;
  return all.size() > 1 && all.ends_with('.') ? all.substr(0, all.size() - 1) : all;
}

std::string_view PunktWord::type_without_sentence_period() const {
  return ends_sentence ? type_without_period() : std::string_view(type);
}

bool is_punctuation_beside_words(char32_t code_point) {
  return kPunctuationBesideWords.find(code_point) != kPunctuationBesideWords.npos;
}

std::vector<PunktWord> punkt_words(std::string_view text) {
  std::vector<PunktWord> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (size_without_trailing_space(line) == 0) continue;
    for (size_t at = find_without(kIsSpace, line, 0); at < line.size();) {
      const size_t behind = word_end(line, at);
      words.emplace_back(line.substr(at, behind - at));
      at = find_without(kIsSpace, line, behind);
    }
  }
  return words;
}

}  // namespace meg::preprocess
