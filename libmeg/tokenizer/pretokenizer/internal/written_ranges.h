#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace meg::tokenizer {

/// Ranges of code points for brackets, as PCRE2 writes them.
class WrittenRanges {
 public:
  /// first: after what was added before.
  void add(char32_t first, char32_t last) {
    if (last_ && *last_ + 1 == first) {
      last_ = last;
      return;
    }
    write_last();
    text_ += fmt::format("\\x{{{:x}}}-", static_cast<uint32_t>(first));
    last_ = last;
  }

  std::string text() && {
    write_last();
    return std::move(text_);
  }

 private:
  void write_last() {
    if (last_) text_ += fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(*last_));
  }

  std::string text_;
  std::optional<char32_t> last_;
};

}  // namespace meg::tokenizer
