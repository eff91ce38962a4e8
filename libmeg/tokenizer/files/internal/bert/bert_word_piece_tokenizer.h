#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/tokenizer/files/internal/bert/vocabulary_lines.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"
#include "libmeg/tokenizer/models/internal/wordpiece/word_piece_model.h"

namespace meg::tokenizer::wordpiece {

/// BERT's WordPiece from a vocab.txt.
/// Mirrors Megatron-LM megatron/tokenizer/tokenizer.py: _BertWordPieceTokenizer, and
/// megatron/tokenizer/bert_tokenization.py.
class BertWordPieceTokenizer : public Tokenizer {
 public:
  /// The encoder to use; both give the same ids.
  enum class Implementation { kFast, kReference };

  struct Options {
    bool lower_case = true;  ///< Lower case without accents.
    Implementation implementation = Implementation::kFast;
    int64_t extra_ids = 0;  ///< Further tokens: <extra_id_0> and so on.
  };

  /// vocabulary: a vocab.txt; name: the file's, for errors. kCorruption if it lacks one of [CLS],
  /// [SEP], [PAD], [MASK] and [UNK]; otherwise the errors of VocabularyLines::parse().
  static Result<std::unique_ptr<BertWordPieceTokenizer>> parse(std::string_view vocabulary,
                                                               const std::string& name,
                                                               const Options& options);

  int64_t vocab_size() const override { return static_cast<int64_t>(vocabulary_.tokens.size()); }

  /// Megatron's class has none.
  std::optional<int32_t> eod() const override { return std::nullopt; }

  std::optional<int32_t> bos() const override { return id_of("[BOS]"); }

  std::optional<int32_t> pad() const override { return id_of("[PAD]"); }

  std::optional<std::string_view> token_bytes(int32_t id) const override;

  int32_t max_id() const override { return static_cast<int32_t>(vocab_size()) - 1; }

  std::unique_ptr<TokenEncoder> new_encoder(DType dtype) const override;

 private:
  BertWordPieceTokenizer(VocabularyLines vocabulary, const Options& options);

  /// Words with spaces between them, none before most punctuation.
  Result<std::string> decode_text(std::span<const int32_t> ids, bool more_follow) const override;

  std::optional<std::string> rules() const override;

  int32_t id_of(const std::string& token) const { return vocabulary_.ids.at(token); }

  const Options options_;
  const VocabularyLines vocabulary_;
  const WordPieceModel model_;
};

/// Opens the tokenizer of --vocab-file, as the revision of `options` has it: this class, or Hugging
/// Face's tokenizer, which megatron.core.tokenizers uses instead.
Result<std::unique_ptr<Tokenizer>> open_bert_word_piece(const TokenizerOptions& options);

}  // namespace meg::tokenizer::wordpiece
