#include "libmeg/tokenizer/models/internal/wordpiece/reference/basic_words.h"

#include <algorithm>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/wordpiece/bert_characters.h"

namespace meg::tokenizer::wordpiece::reference {

namespace {

constexpr char32_t kSpace = ' ';

/// Leaves out what is removed, with spaces for whitespace and around Chinese characters.
std::u32string cleaned(std::string_view text) {
  std::u32string clean;
  while (!text.empty()) {
    const text::DecodedCodePoint next = text::decode_code_point(text);
    text.remove_prefix(next.size);
    switch (CharacterProperties(next.code_point).kind()) {
      case CharacterKind::kRemoved:
        break;
      case CharacterKind::kSpace:
        clean += kSpace;
        break;
      case CharacterKind::kChinese:
        (clean += kSpace).append(1, next.code_point) += kSpace;
        break;
      default:
        clean += next.code_point;
    }
  }
  return clean;
}

/// Whether a capital sigma ends a word: after a cased character, and before none.
bool is_final(const std::u32string& token, size_t sigma) {
  const auto seen = [](char32_t c) { return !CharacterProperties(c).case_ignorable(); };
  const auto cased = [](char32_t c) { return CharacterProperties(c).cased(); };
  const std::u32string before(token.rbegin() + static_cast<std::ptrdiff_t>(token.size() - sigma),
                              token.rend());
  const auto last = std::find_if(before.begin(), before.end(), seen);
  const auto next =
      std::find_if(token.begin() + static_cast<std::ptrdiff_t>(sigma) + 1, token.end(), seen);
  return last != before.end() && cased(*last) && (next == token.end() || !cased(*next));
}

/// Characters between others that none is ordered past, by their combining class.
void order(std::u32string& folded, size_t begin) {
  std::stable_sort(folded.begin() + static_cast<std::ptrdiff_t>(begin), folded.end(),
                   [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
}

std::u32string folded(const std::u32string& token) {
  std::u32string result;
  size_t run = 0;  // where the characters begin that may still change places
  for (size_t i = 0; i < token.size(); ++i) {
    std::u32string added;
    append_folded(token[i], added);
    if (token[i] == kCapitalSigma && is_final(token, i)) added = kFinalSigma;
    // Decomposed characters stand in canonical order before accents are dropped: the order is part
    // of what is compared with the vocabulary.
    for (const char32_t character : added) {
      if (!CharacterProperties(character).ordered()) {
        order(result, run);
        run = result.size() + 1;
      }
      result += character;
    }
    if (!CharacterProperties(token[i]).starting_mark()) continue;
    order(result, run);
    run = result.size();
  }
  order(result, std::min(run, result.size()));
  return result;
}

void split_on_punctuation(const std::u32string& token, std::vector<std::u32string>& words) {
  bool begins = true;
  for (const char32_t character : token) {
    const bool alone = CharacterProperties(character).kind() == CharacterKind::kPunctuation;
    if (begins || alone) words.emplace_back();
    words.back() += character;
    begins = alone;
  }
}

}  // namespace

std::vector<std::u32string> basic_words(std::string_view text, bool lower_case) {
  const std::u32string clean = cleaned(text);
  std::vector<std::u32string> words;
  for (size_t at = 0; (at = clean.find_first_not_of(kSpace, at)) != std::u32string::npos;) {
    const size_t end = std::min(clean.find(kSpace, at), clean.size());
    const std::u32string token = clean.substr(at, end - at);
    split_on_punctuation(lower_case ? folded(token) : token, words);
    at = end;
  }
  return words;
}

}  // namespace meg::tokenizer::wordpiece::reference
