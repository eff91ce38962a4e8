#include "libmeg/tokenizer/tokenizer.h"

#include <simdjson.h>

#include "libmeg/core/printable.h"
#include "libmeg/core/utf8.h"

namespace meg {

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text) const {
  if (!simdjson::validate_utf8(text.data(), text.size())) {
    const size_t at = find_invalid_utf8(text);
    return make_error(StatusCode::kInvalidArgument, "text: byte {}: expected UTF-8, found {}", at,
                      printable(text.substr(at, 4)));
  }
  std::string padded;
  padded.reserve(text.size() + kTextPadding);
  padded.append(text).append(kTextPadding, '\0');
  TokenBuffer tokens(DType::kInt32);
  new_encoder(DType::kInt32)->encode(std::string_view(padded).substr(0, text.size()), tokens);
  std::vector<int32_t> ids;
  ids.reserve(static_cast<size_t>(tokens.size()));
  for (int64_t i = 0; i < tokens.size(); ++i) ids.push_back(tokens.at(i));
  return ids;
}

DType optimal_dtype(int64_t vocab_size) {
  return vocab_size < 65500 ? DType::kUint16 : DType::kInt32;
}

}  // namespace meg
