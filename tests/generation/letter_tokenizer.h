#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::test {

/// A tokenizer whose tokens are the given texts; those of one byte are what text becomes.
class LetterTokenizer : public tokenizer::Tokenizer {
 public:
  explicit LetterTokenizer(std::vector<std::string> tokens, std::optional<int32_t> eod = {})
      : tokens_(std::move(tokens)), eod_(eod) {}

  /// `size` tokens "0", "1", ..., the last of which ends a document.
  static LetterTokenizer numbers(int64_t size) {
    std::vector<std::string> tokens;
    for (int64_t i = 0; i < size; ++i) tokens.push_back(std::to_string(i));
    return LetterTokenizer(std::move(tokens), static_cast<int32_t>(size - 1));
  }

  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }

  std::optional<int32_t> eod() const override { return eod_; }

  std::optional<std::string_view> token_bytes(int32_t id) const override {
    if (id < 0 || id > max_id()) return std::nullopt;
    return tokens_[static_cast<size_t>(id)];
  }

  int32_t max_id() const override { return static_cast<int32_t>(tokens_.size()) - 1; }

  std::unique_ptr<tokenizer::TokenEncoder> new_encoder(DType) const override {
    return std::make_unique<Encoder>(*this);
  }

 private:
  Result<std::string> decode_text(std::span<const int32_t> ids, bool) const override {
    std::string text;
    for (const int32_t id : ids) text += tokens_.at(static_cast<size_t>(id));
    return text;
  }

  class Encoder : public tokenizer::TokenEncoder {
   public:
    explicit Encoder(const LetterTokenizer& tokenizer) : tokenizer_(tokenizer) {}

    Status encode(std::string_view text, tokenizer::TokenBuffer& tokens) override {
      for (const char letter : text) {
        for (size_t id = 0; id < tokenizer_.tokens_.size(); ++id) {
          if (tokenizer_.tokens_[id] == std::string(1, letter)) {
            tokens.push_back(static_cast<int32_t>(id));
          }
        }
      }
      return {};
    }

   private:
    const LetterTokenizer& tokenizer_;
  };

  std::vector<std::string> tokens_;
  std::optional<int32_t> eod_;
};

}  // namespace meg::test
