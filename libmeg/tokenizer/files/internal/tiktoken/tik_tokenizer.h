#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"
#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"
#include "libmeg/tokenizer/models/internal/bpe/fast/merge_table.h"
#include "libmeg/tokenizer/steps/internal/added_tokens.h"
#include "libmeg/tokenizer/steps/internal/pre_tokenizer.h"
#include "libmeg/tokenizer/words/internal/word_scan.h"

namespace meg::tokenizer {

/// The default of --vocab-size.
inline constexpr int64_t kTiktokenVocabSize = int64_t{1} << 17;

/// A vocabulary of tiktoken, preceded by special tokens.
/// Mirrors Megatron-LM megatron/training/tokenizer/tokenizer.py: CustomTikTokenizer, and
/// megatron/core/tokenizers/text/libraries/tiktoken_tokenizer.py: TikTokenTokenizer.
class TikTokenizer : public Tokenizer {
 public:
  struct Options {
    std::vector<std::string> special_tokens;  ///< Their ids are 0 and on.
    bool specials_in_text = false;            ///< The text of a special token becomes the token.
    std::string pattern = "v2";               ///< A name for find_pattern_by_name().
    bool reference = false;  ///< Words are found by regular expressions and merged plainly.
  };

  /// tokens: the bytes of each, by rank; name: for messages. Errors: RankModelBuilder::build's,
  /// fast::MergeTable::build's.
  static Result<std::unique_ptr<TikTokenizer>> create(const std::vector<std::string>& tokens,
                                                      const std::string& name,
                                                      const Options& options);

  int64_t vocab_size() const override {
    return static_cast<int64_t>(options_.special_tokens.size()) + model_.vocab_size();
  }

  std::optional<int32_t> eod() const override { return special_id("</s>"); }

  std::optional<int32_t> bos() const override { return special_id("<s>"); }

  std::optional<int32_t> pad() const override { return special_id("<pad>"); }

  std::vector<SpecialToken> special_tokens() const override;

  std::optional<std::string_view> token_bytes(int32_t id) const override;

  bool joins_token_bytes() const override { return true; }

  int32_t max_id() const override { return model_.max_id(); }

  std::unique_ptr<TokenEncoder> new_encoder(DType dtype) const override;

 private:
  TikTokenizer(BpeModel model, fast::MergeTable table, const Options& options);

  Result<std::string> decode_text(std::span<const int32_t> ids, bool more_follow) const override;

  std::optional<std::string> rules() const override {
    return model_.rules() + "tiktoken " + options_.pattern;
  }

  std::optional<int32_t> special_id(std::string_view text) const;
  std::unique_ptr<TokenEncoder> new_word_encoder(DType dtype) const;

  const BpeModel model_;
  const fast::MergeTable merge_table_;
  const Options options_;
  const PreTokenizer pre_tokenizer_;  // the pattern alone
  AddedTokenFinder in_text_, none_;
};

/// Opens the tokenizer of --tokenizer-model and the --tiktoken flags, as the revision of `options`
/// has it.
Result<std::unique_ptr<Tokenizer>> open_tik(const TokenizerOptions& options);

}  // namespace meg::tokenizer
