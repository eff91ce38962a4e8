#include "libmeg/inference/evaluation/text_tokens.h"

namespace meg::inference {

TextTokens::TextTokens(const Tokenizer& tokenizer)
    : encoder_(tokenizer.new_encoder(DType::kInt32)), tokens_(DType::kInt32) {}

std::vector<int32_t> TextTokens::of(std::string_view text) {
  padded_.assign(text).append(kTextPadding, '\0');
  tokens_.clear();
  encoder_->encode(std::string_view(padded_).substr(0, text.size()), tokens_);
  std::vector<int32_t> ids;
  ids.reserve(static_cast<size_t>(tokens_.size()));
  for (int64_t i = 0; i < tokens_.size(); ++i) ids.push_back(tokens_.at(i));
  return ids;
}

}  // namespace meg::inference
