#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace meg::tokenizer {

/// Code points that have the same general category, or the same script, or are all Alphabetic.
struct PropertyRange {
  char32_t first, last;
  uint8_t value;
};

struct PropertyName {
  std::string_view name;
  uint8_t value;
};

// Expanded from their files of ranges, which hold every code point but surrogates, in ascending
// order.
namespace general_category_tables {
std::span<const PropertyRange> ranges();
std::span<const PropertyName> names();
}  // namespace general_category_tables

namespace pattern_script_tables {
std::span<const PropertyRange> ranges();
std::span<const PropertyName> names();
}  // namespace pattern_script_tables

namespace alphabetic_tables {
std::span<const PropertyRange> ranges();
std::span<const PropertyName> names();
}  // namespace alphabetic_tables

/// What \p{name} of a pattern means to the PyPI packages `tokenizers` and `tiktoken`.
struct PatternProperty {
  std::span<const PropertyRange> ranges;
  std::function<bool(uint8_t value)> has;  ///< Whether the ranges of a value have the property.
};

/// name: a general category (`Lu`, `L` for all of them), a script (`Han`, `Hani`) or `Alphabetic`,
/// in either case, with or without spaces, hyphens and underscores. nullopt for any other property.
std::optional<PatternProperty> find_pattern_property(std::string_view name);

}  // namespace meg::tokenizer
