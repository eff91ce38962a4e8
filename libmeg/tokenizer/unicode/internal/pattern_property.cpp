#include "libmeg/tokenizer/unicode/internal/pattern_property.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libmeg/text/ascii.h"

namespace meg::tokenizer {
namespace {

std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    plain.push_back(text::is_ascii_letter(c) ? static_cast<char>(c | 0x20) : c);
  }
  return plain;
}

}  // namespace

std::optional<PatternProperty> find_pattern_property(std::string_view name) {
  const std::string plain = plain_name(name);
  uint32_t values = 0;  // a bit for each category
  for (const PropertyName& known : general_category_tables::names()) {
    const std::string category = plain_name(known.name);
    if (plain == category || plain == category.substr(0, 1)) values |= 1U << known.value;
  }
  if (values != 0) {
    return PatternProperty{general_category_tables::ranges(),
                           [values](uint8_t value) { return (values >> value & 1) != 0; }};
  }
  for (const auto& [ranges, names] :
       {std::pair(pattern_script_tables::ranges(), pattern_script_tables::names()),
        std::pair(alphabetic_tables::ranges(), alphabetic_tables::names())}) {
    for (const PropertyName& known : names) {
      if (plain != known.name) continue;
      return PatternProperty{ranges, [of = known.value](uint8_t value) { return value == of; }};
    }
  }
  return std::nullopt;
}

}  // namespace meg::tokenizer
