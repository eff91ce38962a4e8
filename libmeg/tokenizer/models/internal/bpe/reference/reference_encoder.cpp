#include "libmeg/tokenizer/models/internal/bpe/reference/reference_encoder.h"

#include <cassert>
#include <utility>

#include "libmeg/tokenizer/models/internal/bpe/reference/bpe.h"

namespace meg::tokenizer::reference {

namespace {

class ReferenceEncoder : public TokenEncoder {
 public:
  ReferenceEncoder(const BpeModel& model, DType dtype,
                   std::function<size_t(std::string_view)> first_word_size)
      : model_(model), bpe_(model), dtype_(dtype), first_word_size_(std::move(first_word_size)) {}

  Status encode(std::string_view text, TokenBuffer& tokens) override {
    assert(tokens.dtype() == dtype_);
    while (!text.empty()) {
      const std::string_view word = text.substr(0, first_word_size_(text));
      // Empty for models that merge every word.
      if (const std::optional<int32_t> id = model_.whole_word(word)) {
        tokens.push_back(*id);
      } else {
        for (const int32_t piece : bpe_.merge(word)) tokens.push_back(model_.token_id(piece));
      }
      text.remove_prefix(word.size());
    }
    return {};
  }

 private:
  const BpeModel& model_;
  const Bpe bpe_;
  [[maybe_unused]] const DType dtype_;
  const std::function<size_t(std::string_view)> first_word_size_;
};

}  // namespace

std::unique_ptr<TokenEncoder> new_reference_encoder(
    const BpeModel& model, DType dtype, std::function<size_t(std::string_view)> first_word_size) {
  return std::make_unique<ReferenceEncoder>(model, dtype, std::move(first_word_size));
}

}  // namespace meg::tokenizer::reference
