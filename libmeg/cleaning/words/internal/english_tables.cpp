#include "libmeg/cleaning/words/internal/english_tables.h"

#include <algorithm>
#include <charconv>

#include "libmeg/text/line_ends.h"

namespace meg::cleaning {
namespace {

/// Base 16, up to what is no digit.
uint32_t number_of(std::string_view digits) {
  uint32_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

EnglishTables read_tables() {
  EnglishTables tables;
  std::string_view text = english_text(), line;
  while (text::take_line(text, line)) {
    const std::string_view kind = line.substr(0, line.find('\t'));
    for (line.remove_prefix(kind.size()); !line.empty();) {
      line.remove_prefix(1);  // the tab before each item
      const std::string_view item = line.substr(0, line.find('\t'));
      line.remove_prefix(item.size());
      if (kind == "words") {
        SplitWord& split = tables.words.emplace_back(SplitWord{std::string(item), item});
        std::erase(split.word, ' ');
      } else if (kind == "units") {
        tables.units.push_back(item);
      } else {
        const std::string_view last = item.substr(item.find('-') + 1);
        tables.ranges.push_back({number_of(item), number_of(last), number_of(kind)});
      }
    }
  }
  std::sort(tables.ranges.begin(), tables.ranges.end(),
            [](const CharacterRange& a, const CharacterRange& b) { return a.first < b.first; });
  return tables;
}

}  // namespace

const EnglishTables& english_tables() {
  static const EnglishTables tables = read_tables();
  return tables;
}

}  // namespace meg::cleaning
