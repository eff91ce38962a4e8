#include "libmeg/tokenizer/pretokenizer/internal/escape_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/unicode/internal/character_class.h"
#include "libmeg/tokenizer/unicode/internal/pattern_property.h"

namespace meg::tokenizer {
namespace {

/// \s, or \S where `negated`.
std::vector<CodePointRange> ranges_of_space(bool negated) {
  std::vector<CodePointRange> ranges;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (is_space(c) == negated || (c >= 0xD800 && c < 0xE000)) continue;
    if (!ranges.empty() && ranges.back().last + 1 == c) {
      ranges.back().last = c;
    } else {
      ranges.push_back({c, c});
    }
  }
  return ranges;
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

std::optional<std::vector<CodePointRange>> ranges_of_escape(std::string_view element) {
  static const std::vector<CodePointRange> spaces = ranges_of_space(false);
  static const std::vector<CodePointRange> others = ranges_of_space(true);
  if (element == "\\s") return spaces;
  if (element == "\\S") return others;
  const auto property = find_pattern_property(name_of_property(element));
  if (!property) return std::nullopt;
  const bool negated = element.starts_with("\\P") != element.substr(3).starts_with('^');
  std::vector<CodePointRange> ranges;
  for (const PropertyRange& range : property->ranges) {
    if (property->has(range.value) != negated) ranges.push_back({range.first, range.last});
  }
  return ranges;
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
