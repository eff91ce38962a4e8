#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meg::tokenizer {

/// Code points, both included; no surrogates, which no UTF-8 text holds.
struct CodePointRange {
  char32_t first, last;
};

/// Bytes of what stands at the beginning of a pattern: an escape with its braces, else a character.
size_t size_of_element(std::string_view pattern);

/// The name in \p{name}, \P{name} or \p{^name}; empty for any other element.
std::string_view name_of_property(std::string_view element);

/// What \s, \d, \w, \h, one of them in capitals or a property is for the packages, whose Unicode
/// version PCRE2 does not have, in ascending order; nullopt for any other element and a property of
/// which libmeg has no tables. in_brackets: where Oniguruma's \w lacks six numbers of Latin-1.
std::optional<std::vector<CodePointRange>> ranges_of_escape(std::string_view element,
                                                            bool in_brackets);

/// Ascending ranges as PCRE2 writes them in brackets; empty if there are none.
std::string written(const std::vector<CodePointRange>& ranges);

}  // namespace meg::tokenizer
