#include "libmeg/tokenizer/bpe/internal/reference/reference_encoder.h"

#include <cassert>

#include "libmeg/tokenizer/bpe/internal/reference/bpe.h"
#include "libmeg/tokenizer/bpe/internal/reference/gpt2_pretokenizer.h"

namespace meg::tokenizer::reference {

namespace {

class ReferenceEncoder : public TokenEncoder {
 public:
  ReferenceEncoder(const BpeModel& model, DType dtype)
      : model_(model), bpe_(model), dtype_(dtype) {}

  void encode(std::string_view text, TokenBuffer& tokens) override {
    assert(tokens.dtype() == dtype_);
    while (!text.empty()) {
      const std::string_view word = text.substr(0, first_word_size(text));
      for (const int32_t piece : bpe_.merge(word)) tokens.push_back(model_.token_id(piece));
      text.remove_prefix(word.size());
    }
  }

 private:
  const BpeModel& model_;
  const Bpe bpe_;
  [[maybe_unused]] const DType dtype_;
};

}  // namespace

std::unique_ptr<TokenEncoder> new_reference_encoder(const BpeModel& model, DType dtype) {
  return std::make_unique<ReferenceEncoder>(model, dtype);
}

}  // namespace meg::tokenizer::reference
