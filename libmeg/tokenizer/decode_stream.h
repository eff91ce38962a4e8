#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/tokenizer/tokenizer.h"

namespace meg::tokenizer {

/// Decodes a text while its ids are made. The pieces, one behind the other, are what decode() gives
/// for all ids; each is whole characters of UTF-8, and empty while what an id adds depends on those
/// behind it. Takes time in proportion to the text where the tokenizer joins_token_bytes(); for
/// others each id decodes all before it, too: there it is for texts that are shown, not for
/// datasets. The tokenizer must outlive it.
class DecodeStream {
 public:
  explicit DecodeStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// What is certain with one more id. kOutOfRange for an id outside the vocabulary.
  Result<std::string> add(int32_t id);

  /// What is left at the end of the text.
  Result<std::string> finish();

 private:
  std::string take_bytes(size_t size);
  std::string after_given(const std::string& text);

  const Tokenizer& tokenizer_;

  // Of joined bytes: the ids so far, and the bytes of the character that is not whole yet.
  size_t count_ = 0;
  std::string bytes_;

  // Of other texts: all ids so far, and how many bytes of their text were given.
  std::vector<int32_t> ids_;
  size_t given_ = 0;
};

}  // namespace meg::tokenizer
