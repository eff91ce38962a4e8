#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "libmeg/base/result.h"

namespace meg::tokenizer {

/// A compiled regular expression of a tokenizer, Unicode throughout. Immutable and safe to share.
class RegexMatcher {
 public:
  enum class Dialect {
    kOniguruma,  ///< With Ruby's syntax, as Hugging Face's tokenizers read a file's patterns.
    kTiktoken,   ///< Rust's, in which `{1,3}+` is possessive and `$` the end of the text.
  };

  /// kUnsupported, with the place, for a pattern that does not compile, or that PCRE2 cannot
  /// interpret in the same way. name: for messages.
  static Result<RegexMatcher> compile(std::string_view pattern, const std::string& name,
                                      Dialect dialect = Dialect::kOniguruma);

  /// As it was compiled; valid as long as the matcher.
  const std::string& pattern() const;

  /// Begin and end, in bytes.
  using Match = std::pair<size_t, size_t>;

  /// The first non-empty match in text (valid UTF-8) at or after `from`. kResourceExhausted if it
  /// takes too many steps.
  Result<std::optional<Match>> find(std::string_view text, size_t from) const;

 private:
  struct Compiled;

  explicit RegexMatcher(std::shared_ptr<const Compiled> compiled)
      : compiled_(std::move(compiled)) {}

  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace meg::tokenizer
