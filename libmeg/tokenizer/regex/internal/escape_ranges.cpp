#include "libmeg/tokenizer/regex/internal/escape_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/unicode/internal/character_class.h"
#include "libmeg/tokenizer/unicode/internal/pattern_property.h"

namespace meg::tokenizer {
namespace {

using Ranges = std::vector<CodePointRange>;

Ranges ranges_of_property(const PatternProperty& property, bool negated) {
  Ranges ranges;
  for (const PropertyRange& range : property.ranges) {
    if (property.has(range.value) != negated) ranges.push_back({range.first, range.last});
  }
  return ranges;
}

Ranges ranges_of_space() {
  Ranges ranges;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (is_space(c)) ranges.push_back({c, c});
  }
  return ranges;
}

/// Letters, marks, digits and connecting marks of punctuation; outside of brackets also the numbers
/// of Latin-1.
Ranges ranges_of_word(bool in_brackets) {
  Ranges all;
  for (const char* const name : {"Alphabetic", "M", "Nd", "Pc"}) {
    const Ranges of_name = ranges_of_property(*find_pattern_property(name), false);
    all.insert(all.end(), of_name.begin(), of_name.end());
  }
  constexpr CodePointRange kNumbers[] = {{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}};
  if (!in_brackets) all.insert(all.end(), std::begin(kNumbers), std::end(kNumbers));
  return all;
}

/// In ascending order, each code point once.
Ranges merged(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  Ranges found;
  for (const CodePointRange& range : ranges) {
    if (!found.empty() && range.first <= found.back().last + 1) {
      found.back().last = std::max(found.back().last, range.last);
    } else {
      found.push_back(range);
    }
  }
  return found;
}

/// All other code points but surrogates. ranges: merged.
Ranges inverted(Ranges ranges) {
  ranges.push_back({0xD800, 0xDFFF});
  Ranges others;
  char32_t next = 0;
  for (const CodePointRange& range : merged(std::move(ranges))) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next < 0x110000) others.push_back({next, 0x10FFFF});
  return others;
}

/// Of \s and the like by its letter, a small one; empty for other letters.
Ranges ranges_of_class(char letter, bool in_brackets) {
  static const Ranges spaces = merged(ranges_of_space());
  if (letter == 's') return spaces;
  if (letter == 'd') return ranges_of_property(*find_pattern_property("Nd"), false);
  if (letter == 'w') return merged(ranges_of_word(in_brackets));
  if (letter == 'h') return {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  return {};
}

}  // namespace

size_t size_of_element(std::string_view pattern) {
  if (pattern.front() != '\\' || pattern.size() == 1) {
    return text::decode_code_point(pattern).size;
  }
  const bool has_braces = std::string_view("pPx").find(pattern[1]) != std::string_view::npos &&
                          pattern.substr(2).starts_with('{');
  return has_braces ? std::min(pattern.find('}'), pattern.size() - 1) + 1 : 2;
}

std::string_view name_of_property(std::string_view element) {
  const bool is_property =
      (element.starts_with("\\p{") || element.starts_with("\\P{")) && element.ends_with('}');
  if (!is_property) return {};
  const size_t begin = element.substr(3).starts_with('^') ? 4 : 3;
  return element.substr(begin, element.size() - begin - 1);
}

std::optional<std::vector<CodePointRange>> ranges_of_escape(std::string_view element,
                                                            bool in_brackets) {
  if (element.size() == 2 && element[0] == '\\') {
    const bool negated = element[1] < 'a';
    const auto letter = static_cast<char>(element[1] | 0x20);
    Ranges ranges = ranges_of_class(letter, in_brackets);
    if (ranges.empty()) return std::nullopt;
    return negated ? inverted(std::move(ranges)) : ranges;
  }
  const auto property = find_pattern_property(name_of_property(element));
  if (!property) return std::nullopt;
  const bool negated = element.starts_with("\\P") != element.substr(3).starts_with('^');
  return ranges_of_property(*property, negated);
}

std::string written(const std::vector<CodePointRange>& ranges) {
  std::string text;
  for (size_t i = 0; i < ranges.size();) {
    const char32_t first = ranges[i].first;
    char32_t last = ranges[i++].last;
    for (; i < ranges.size() && ranges[i].first == last + 1; ++i) last = ranges[i].last;
    text += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<uint32_t>(first),
                        static_cast<uint32_t>(last));
  }
  return text;
}

}  // namespace meg::tokenizer
