#include "libmeg/tokenizer/words/internal/reference/gpt2_pretokenizer.h"

#include <array>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/unicode/internal/unicode_class.h"

namespace meg::tokenizer::reference {

namespace {

constexpr std::array<std::string_view, 7> kContractions = {"'s", "'t",  "'re", "'ve",
                                                           "'m", "'ll", "'d"};

/// Bytes at the start of text whose code points all have the class.
size_t run_size(std::string_view text, UnicodeClass wanted) {
  size_t size = 0;
  while (size < text.size()) {
    const text::DecodedCodePoint next = text::decode_code_point(text.substr(size));
    if (unicode_class(next.code_point) != wanted) break;
    size += next.size;
  }
  return size;
}

/// ` ?X+` for a class X; 0 where it does not match.
size_t optional_space_and_run(std::string_view text, UnicodeClass wanted) {
  const size_t space = text[0] == ' ' ? 1 : 0;
  const size_t run = run_size(text.substr(space), wanted);
  return run == 0 ? 0 : space + run;
}

/// `\s+(?!\S)`: spaces, but where other text follows them, not the last one; 0 for no match.
size_t spaces_before_space_or_end(std::string_view text) {
  const size_t run = run_size(text, UnicodeClass::kSpace);
  if (run == text.size()) return run;
  size_t last = 0;  // where the run's last space begins
  for (size_t at = 0; at < run; at += text::decode_code_point(text.substr(at)).size) last = at;
  return last;
}

}  // namespace

/// The alternatives of GPT-2's regular expression in its order: the first that matches wins,
/// however much further a later one would reach.
size_t first_word_size(std::string_view text) {
  for (const std::string_view contraction : kContractions) {
    if (text.starts_with(contraction)) return contraction.size();
  }
  for (const UnicodeClass wanted :
       {UnicodeClass::kLetter, UnicodeClass::kNumber, UnicodeClass::kOther}) {
    const size_t size = optional_space_and_run(text, wanted);
    if (size > 0) return size;
  }
  const size_t spaces = spaces_before_space_or_end(text);
  return spaces > 0 ? spaces : run_size(text, UnicodeClass::kSpace);
}

}  // namespace meg::tokenizer::reference
