#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "libmeg/base/status.h"

namespace meg::tokenizer {

/// kUnsupported, with the construct, for anything in a pattern that Oniguruma, the dialect of
/// tokenizers, interprets in a way that PCRE2 cannot reproduce: texts would silently be split
/// differently. pattern: of flatten_nested_brackets(). Whether the pattern is valid at all is left
/// to the compiler. name: for messages.
Status check_oniguruma_dialect(std::string_view pattern, const std::string& name);

/// `{2}`, `{2,}`, `{2,3}` or `{,3}` after what it repeats.
struct Interval {
  size_t size = 0;        // of its text; 0 where there is none
  bool is_exact = false;  // {2}
};

Interval interval_at(std::string_view text);

}  // namespace meg::tokenizer
