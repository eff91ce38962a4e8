#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/cleaning/clean.h"

namespace meg::cleaning {

/// Guesses the language of texts by script and stop words: of the script that most letters have,
/// the language of which most words are stop words (languages.txt). Belongs to one thread.
class LanguageRule {
 public:
  LanguageRule();

  /// Names of the languages that it knows.
  static std::vector<std::string_view> languages();

  struct Guess {
    std::string_view language;  ///< Empty where there is none.
    /// The script's share of the letters, times, where it has several languages, a share of the
    /// stop words that are the language's or the next one's, but not both's: the language's; half
    /// where there are none.
    double score = 0;
  };

  Guess guess(std::string_view text);

 private:
  std::vector<int64_t> letters_;                   // of each script
  std::vector<int64_t> hits_;                      // stop words of each language
  std::vector<const std::vector<size_t>*> found_;  // the languages of each stop word
  std::string word_;
};

/// The text of languages.txt.
std::string_view languages_text();

}  // namespace meg::cleaning
