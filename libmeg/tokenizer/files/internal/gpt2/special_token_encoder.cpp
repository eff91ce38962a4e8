#include "libmeg/tokenizer/files/internal/gpt2/special_token_encoder.h"

#include <utility>

namespace meg::tokenizer {

namespace {

class SpecialTokenEncoder : public TokenEncoder {
 public:
  SpecialTokenEncoder(std::unique_ptr<TokenEncoder> parts, std::string special_token, int32_t id)
      : parts_(std::move(parts)), special_token_(std::move(special_token)), id_(id) {}

  Status encode(std::string_view text, TokenBuffer& tokens) override {
    for (size_t found; (found = text.find(special_token_)) != std::string_view::npos;) {
      MEG_RETURN_IF_ERROR(encode_part(text.substr(0, found), tokens));
      tokens.push_back(id_);
      text.remove_prefix(found + special_token_.size());
    }
    return encode_part(text, tokens);
  }

 private:
  Status encode_part(std::string_view part, TokenBuffer& tokens) {
    return part.empty() ? Status() : parts_->encode(part, tokens);
  }

  const std::unique_ptr<TokenEncoder> parts_;
  const std::string special_token_;
  const int32_t id_;
};

}  // namespace

std::unique_ptr<TokenEncoder> new_special_token_encoder(std::unique_ptr<TokenEncoder> parts,
                                                        std::string special_token, int32_t id) {
  return std::make_unique<SpecialTokenEncoder>(std::move(parts), std::move(special_token), id);
}

}  // namespace meg::tokenizer
