#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "libmeg/base/cpu.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"
#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"
#include "libmeg/tokenizer/models/internal/bpe/fast/merge_table.h"

namespace meg::tokenizer {

/// GPT-2's byte-level BPE from vocab.json and merges.txt.
/// Mirrors Megatron-LM megatron/tokenizer/tokenizer.py: _GPT2BPETokenizer.
class GPT2BPETokenizer : public Tokenizer {
 public:
  /// The encoder to use; both give the same ids.
  enum class Implementation { kFast, kReference };

  struct Options {
    Implementation implementation = Implementation::kFast;
    /// The text <|endoftext|> becomes the token, as in Megatron core since 0.15; without it the
    /// text is as ordinary as any, as in all revisions before.
    bool special_tokens_in_text = false;
    /// What the fast implementation uses, at most best_instruction_set(); lower it only in tests.
    InstructionSet instruction_set = best_instruction_set();
  };

  /// Errors: BpeModel::load's, and fast::MergeTable::build's.
  static Result<std::unique_ptr<GPT2BPETokenizer>> open(const std::string& vocab_file,
                                                        const std::string& merge_file,
                                                        const Options& options);

  int64_t vocab_size() const override { return model_.vocab_size(); }

  std::optional<int32_t> eod() const override { return model_.eod(); }

  std::vector<SpecialToken> special_tokens() const override;

  std::optional<std::string_view> token_bytes(int32_t id) const override {
    return model_.token_bytes(id);
  }

  bool joins_token_bytes() const override { return true; }

  int32_t max_id() const override { return model_.max_id(); }

  std::unique_ptr<TokenEncoder> new_encoder(DType dtype) const override;

  const BpeModel& model() const { return model_; }

 private:
  GPT2BPETokenizer(BpeModel model, const Options& options);

  Result<std::string> decode_text(std::span<const int32_t> ids, bool more_follow) const override;
  std::optional<std::string> rules() const override;
  std::unique_ptr<TokenEncoder> new_text_encoder(DType dtype) const;

  const BpeModel model_;
  const Options options_;
  std::optional<tokenizer::fast::MergeTable> merge_table_;  // of the fast implementation
};

/// Opens the tokenizer of --vocab-file and --merge-file, as the revision of `options` has it.
Result<std::unique_ptr<Tokenizer>> open_gpt2_bpe(const TokenizerOptions& options);

}  // namespace meg::tokenizer
