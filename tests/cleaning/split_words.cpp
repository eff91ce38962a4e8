// Prints the words and the number of sentences of each line's text as JSON, for comparisons with
// Python: split_words < TEXTS, one JSON string a line.

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "libmeg/cleaning/words/english_words.h"

int main() {
  meg::cleaning::EnglishWords words;
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto text = nlohmann::json::parse(line).get<std::string>();
    words.split(text);
    nlohmann::json answer = {{"words", words.words()}};
    answer["sentences"] = words.count_sentences(text);
    std::cout << answer.dump() << "\n";
  }
  return 0;
}
