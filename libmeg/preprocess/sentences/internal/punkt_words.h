#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meg::preprocess {

/// A word of a text as Punkt defines it, with its annotations.
/// Mirrors nltk/tokenize/punkt.py: PunktToken.
struct PunktWord {
  explicit PunktWord(std::string_view word);

  std::string_view text;
  std::string type;  ///< lower case; a number's is ##number##
  bool ends_sentence = false;
  bool is_abbreviation = false;
  bool is_ellipsis = false;

  bool has_period() const { return text.ends_with('.'); }

  /// One letter and a period.
  bool is_initial() const;
  bool begins_upper() const;
  bool begins_lower() const;

  std::string_view type_without_period() const;

  /// The type without a period that ends a sentence.
  std::string_view type_without_sentence_period() const;
};

/// Whether a character, one of a text's, ends a word before it and is none of its own.
bool is_punctuation_beside_words(char32_t code_point);

/// The words of all lines of `text`, views into it.
/// Mirrors nltk/tokenize/punkt.py: PunktLanguageVars.word_tokenize, _tokenize_words.
std::vector<PunktWord> punkt_words(std::string_view text);

}  // namespace meg::preprocess
