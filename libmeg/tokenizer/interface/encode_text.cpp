#include "libmeg/tokenizer/interface/encode_text.h"

#include <string>

#include "libmeg/text/text_padding.h"

namespace meg::tokenizer {

Result<std::vector<int32_t>> encode_text(TokenEncoder& encoder, std::string_view text) {
  std::string padded;
  padded.reserve(text.size() + text::kTextPadding);
  padded.append(text).append(text::kTextPadding, '\0');
  TokenBuffer tokens(DType::kInt32);
  MEG_RETURN_IF_ERROR(encoder.encode(std::string_view(padded).substr(0, text.size()), tokens));
  std::vector<int32_t> ids;
  ids.reserve(static_cast<size_t>(tokens.size()));
  for (int64_t i = 0; i < tokens.size(); ++i) ids.push_back(tokens.at(i));
  return ids;
}

}  // namespace meg::tokenizer
