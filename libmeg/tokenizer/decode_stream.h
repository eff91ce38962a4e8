#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/tokenizer/tokenizer.h"

namespace meg::tokenizer {

/// Decodes a text while its ids are made. The pieces, one behind the other, are what decode() gives
/// for all ids; each is whole characters of UTF-8, and empty while what an id adds depends on those
/// behind it. Each id decodes all before it, too: it is for texts that are shown, not for datasets.
/// The tokenizer must outlive it.
class DecodeStream {
 public:
  explicit DecodeStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// What is certain with one more id. kOutOfRange for an id outside the vocabulary.
  Result<std::string> add(int32_t id);

  /// What is left at the end of the text.
  Result<std::string> finish();

 private:
  std::string after_given(const std::string& text);

  const Tokenizer& tokenizer_;
  std::vector<int32_t> ids_;
  size_t given_ = 0;  // bytes of the text
};

}  // namespace meg::tokenizer
