#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::tokenizer {

/// Decodes a text while its ids are generated. The concatenated pieces are what decode() returns
/// for all ids; each piece consists of complete UTF-8 characters, and is empty as long as an id's
/// text depends on later ids. Takes time proportional to the text if the tokenizer
/// joins_token_bytes(); for others each id decodes all previous ones again, so use it for texts
/// that are displayed, not for datasets. The tokenizer must outlive it.
class DecodeStream {
 public:
  explicit DecodeStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// The text that is certain after one more id. kOutOfRange for an id outside the vocabulary.
  Result<std::string> add(int32_t id);

  /// The same after several, in one step.
  Result<std::string> add(std::span<const int32_t> ids);

  /// The rest, at the end of the text.
  Result<std::string> finish();

 private:
  std::string take_bytes(size_t size);
  std::string after_given(const std::string& text);

  const Tokenizer& tokenizer_;

  // If token bytes are joined: the number of ids so far, and the bytes of the incomplete character.
  size_t count_ = 0;
  std::string bytes_;

  // Otherwise: all ids so far, and how many bytes of their text were returned.
  std::vector<int32_t> ids_;
  size_t given_ = 0;
};

}  // namespace meg::tokenizer
