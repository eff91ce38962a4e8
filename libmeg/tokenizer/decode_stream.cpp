#include "libmeg/tokenizer/decode_stream.h"

#include <algorithm>

namespace meg::tokenizer {

Result<std::string> DecodeStream::add(int32_t id) {
  ids_.push_back(id);
  MEG_ASSIGN_OR_RETURN(const std::string text, tokenizer_.decode_beginning(ids_));
  return after_given(text);
}

Result<std::string> DecodeStream::finish() {
  MEG_ASSIGN_OR_RETURN(const std::string text, tokenizer_.decode(ids_));
  return after_given(text);
}

/// More ids may for a while make less of the text certain.
std::string DecodeStream::after_given(const std::string& text) {
  const size_t from = std::min(given_, text.size());
  given_ = std::max(given_, text.size());
  return text.substr(from);
}

}  // namespace meg::tokenizer
