#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/fast/fast_encoder.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/model.h"

namespace meg::tokenizer::sentencepiece {

/// A SentencePiece model behind one of Megatron's classes.
/// Mirrors Megatron-LM megatron/tokenizer/tokenizer.py: _SentencePieceTokenizer and its heirs, and
/// megatron/core/tokenizers/text/libraries/sentencepiece_tokenizer.py.
class SentencePieceTokenizer : public Tokenizer {
 public:
  /// The encoder to use; both give the same ids.
  enum class Implementation { kFast, kReference };

  struct Options {
    Implementation implementation = Implementation::kFast;
    /// Every text begins with bos, as Llama2Tokenizer's did before megatron.core.tokenizers.
    bool bos_in_front = false;
    /// Adds tokens such as <CLS> to the vocabulary if the model lacks them, and recognizes them in
    /// texts: SentencePieceTokenizer before megatron.core.tokenizers.
    bool special_tokens = false;
    /// The number of further ones with special_tokens: <extra_id_0> and so on.
    int64_t extra_ids = 0;
  };

  /// kInvalidArgument where bos_in_front is requested and the model has none.
  static Result<std::unique_ptr<SentencePieceTokenizer>> build(Model model, const Options& options);

  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }

  std::optional<int32_t> eod() const override { return eod_; }

  std::optional<int32_t> bos() const override { return bos_; }

  std::optional<int32_t> pad() const override { return pad_; }

  std::vector<SpecialToken> special_tokens() const override;

  std::optional<std::string_view> token_bytes(int32_t id) const override;

  int32_t max_id() const override { return static_cast<int32_t>(tokens_.size()) - 1; }

  std::unique_ptr<TokenEncoder> new_encoder(DType dtype) const override;

  const Model& model() const { return model_; }

 private:
  SentencePieceTokenizer(Model model, const Options& options);

  /// Decodes the pieces between special tokens like the library, and adds a space after special
  /// tokens.
  Result<std::string> decode_text(std::span<const int32_t> ids, bool more_follow) const override;

  std::optional<std::string> rules() const override { return model_.file().rules(); }

  std::unique_ptr<TokenEncoder> new_text_encoder(DType dtype) const;
  void add_special_tokens();
  int32_t add_special_token(const std::string& text);
  const std::string* special_text(int32_t id) const;

  const Model model_;
  const Options options_;
  std::optional<fast::FastModel> fast_;
  std::vector<std::string> tokens_;  // the bytes that each id decodes to
  std::optional<int32_t> eod_, bos_, pad_;
  std::vector<SpecialToken> specials_;  // in the order in which Megatron looks for them
};

}  // namespace meg::tokenizer::sentencepiece
