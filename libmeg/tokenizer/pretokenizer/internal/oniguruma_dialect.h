#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "libmeg/base/status.h"

namespace meg::tokenizer {

/// kUnsupported, by name, for what a pattern means in Oniguruma, the dialect of tokenizers, and
/// PCRE2 cannot be told to do in the same way; texts would be split otherwise without a word.
/// Whether the pattern is one at all is left to the compiler. name: for messages.
Status check_oniguruma_dialect(std::string_view pattern, const std::string& name);

/// `{2}`, `{2,}`, `{2,3}` or `{,3}` behind what it repeats.
struct Interval {
  size_t size = 0;        // of its text; 0 where there is none
  bool is_exact = false;  // {2}
};

Interval interval_at(std::string_view text);

}  // namespace meg::tokenizer
