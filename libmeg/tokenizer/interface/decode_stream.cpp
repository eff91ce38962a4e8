#include "libmeg/tokenizer/interface/decode_stream.h"

#include <algorithm>
#include <string_view>

#include "libmeg/text/utf8.h"

namespace meg::tokenizer {

Result<std::string> DecodeStream::add(int32_t id) { return add(std::span(&id, 1)); }

Result<std::string> DecodeStream::add(std::span<const int32_t> ids) {
  if (tokenizer_.joins_token_bytes()) {
    for (const int32_t id : ids) {
      MEG_ASSIGN_OR_RETURN(const std::string_view bytes, tokenizer_.bytes_of_token(id, count_++));
      bytes_ += bytes;
    }
    return take_bytes(text::size_of_whole_characters(bytes_));
  }
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  MEG_ASSIGN_OR_RETURN(const std::string text, tokenizer_.decode_beginning(ids_));
  return after_given(text);
}

Result<std::string> DecodeStream::finish() {
  if (tokenizer_.joins_token_bytes()) return take_bytes(bytes_.size());
  MEG_ASSIGN_OR_RETURN(const std::string text, tokenizer_.decode(ids_));
  return after_given(text);
}

/// Whole characters, or what is no character, mean the same whatever stands around them.
std::string DecodeStream::take_bytes(size_t size) {
  std::string text;
  text::append_replacing_invalid_utf8(std::string_view(bytes_).substr(0, size), text);
  bytes_.erase(0, size);
  return text;
}

/// More ids may for a while make less of the text certain.
std::string DecodeStream::after_given(const std::string& text) {
  const size_t from = std::min(given_, text.size());
  given_ = std::max(given_, text.size());
  return text.substr(from);
}

}  // namespace meg::tokenizer
