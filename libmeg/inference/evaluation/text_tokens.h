#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/tokenizer.h"

namespace meg::inference {

/// Turns texts into tokens one after another, with one encoder for all of them.
class TextTokens {
 public:
  /// tokenizer must live as long.
  explicit TextTokens(const Tokenizer& tokenizer);

  /// text: UTF-8.
  std::vector<int32_t> of(std::string_view text);

 private:
  std::unique_ptr<TokenEncoder> encoder_;
  TokenBuffer tokens_;
  std::string padded_;
};

}  // namespace meg::inference
