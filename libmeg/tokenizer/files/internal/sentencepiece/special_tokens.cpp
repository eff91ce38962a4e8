#include "libmeg/tokenizer/files/internal/sentencepiece/special_tokens.h"

#include <string_view>
#include <utility>

#include "libmeg/tokenizer/words/internal/first_bytes.h"

namespace meg::tokenizer::sentencepiece {

namespace {

class SpecialTokensEncoder : public TokenEncoder {
 public:
  SpecialTokensEncoder(std::unique_ptr<TokenEncoder> parts, std::vector<SpecialToken> tokens)
      : parts_(std::move(parts)), tokens_(std::move(tokens)) {
    // Most places are ruled out by their first byte; the list is looked through at the others
    // only.
    for (const SpecialToken& token : tokens_) first_bytes_.add(token.text[0]);
  }

  Status encode(std::string_view text, TokenBuffer& tokens) override {
    size_t part = 0;
    FirstByteSearch candidates(first_bytes_, text);
    for (size_t at = 0; (at = candidates.next(at)) != std::string_view::npos;) {
      const SpecialToken* const token = token_at(text.substr(at));
      if (token == nullptr) {
        ++at;
        continue;
      }
      MEG_RETURN_IF_ERROR(encode_part(text.substr(part, at - part), tokens));
      tokens.push_back(token->id);
      part = at += token->text.size();
    }
    return encode_part(text.substr(part), tokens);
  }

 private:
  const SpecialToken* token_at(std::string_view text) const {
    for (const SpecialToken& token : tokens_) {
      if (text.starts_with(token.text)) return &token;
    }
    return nullptr;
  }

  Status encode_part(std::string_view part, TokenBuffer& tokens) {
    return part.empty() ? Status() : parts_->encode(part, tokens);
  }

  const std::unique_ptr<TokenEncoder> parts_;
  const std::vector<SpecialToken> tokens_;
  FirstBytes first_bytes_;
};

class BosEncoder : public TokenEncoder {
 public:
  BosEncoder(std::unique_ptr<TokenEncoder> text, int32_t id) : text_(std::move(text)), id_(id) {}

  Status encode(std::string_view text, TokenBuffer& tokens) override {
    tokens.push_back(id_);
    return text_->encode(text, tokens);
  }

 private:
  const std::unique_ptr<TokenEncoder> text_;
  const int32_t id_;
};

}  // namespace

std::unique_ptr<TokenEncoder> new_special_tokens_encoder(std::unique_ptr<TokenEncoder> parts,
                                                         std::vector<SpecialToken> tokens) {
  return std::make_unique<SpecialTokensEncoder>(std::move(parts), std::move(tokens));
}

std::unique_ptr<TokenEncoder> new_bos_encoder(std::unique_ptr<TokenEncoder> text, int32_t id) {
  return std::make_unique<BosEncoder>(std::move(text), id);
}

}  // namespace meg::tokenizer::sentencepiece
