#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/cpu.h"
#include "libmeg/tokenizer/files/internal/huggingface/tokenizer_json.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"
#include "libmeg/tokenizer/models/internal/bpe/fast/merge_table.h"
#include "libmeg/tokenizer/words/internal/word_split.h"

namespace meg::tokenizer {

/// A tokenizer.json of Hugging Face, with the files beside it.
/// Mirrors Megatron-LM megatron/training/tokenizer/tokenizer.py: _HuggingFaceTokenizer, and
/// megatron/core/tokenizers/text/libraries/huggingface_tokenizer.py: HuggingFaceTokenizer.
class HuggingFaceTokenizer : public Tokenizer {
 public:
  struct Options {
    /// What the post-processor puts around a text, such as <s> in front.
    bool include_special_tokens = true;
    /// megatron.core.tokenizers: without an eos_token, sep_token ends a document, and without a
    /// bos_token, cls_token begins one; decoded texts keep their spaces.
    bool core = false;
    bool reference = false;  ///< Words are found by regular expressions and merged plainly.
    InstructionSet instruction_set = best_instruction_set();
  };

  /// path: a folder with a tokenizer.json, that file, or a model's name in the cache of
  /// huggingface_hub (see hub_cache.h). Errors: read_tokenizer_json's,
  /// read_tokenizer_config's; kNotFound where there is no tokenizer.json.
  static Result<std::unique_ptr<HuggingFaceTokenizer>> open(const std::string& path,
                                                            const Options& options);

  /// The same from the content of a tokenizer.json without files beside it.
  static Result<std::unique_ptr<HuggingFaceTokenizer>> parse(std::string_view json,
                                                             const std::string& name,
                                                             TokenizerConfig config,
                                                             const Options& options);

  int64_t vocab_size() const override { return file_.vocab_size; }

  std::optional<int32_t> eod() const override { return eod_; }

  std::optional<int32_t> bos() const override { return bos_; }

  std::optional<int32_t> pad() const override { return pad_; }

  std::vector<SpecialToken> special_tokens() const override;

  std::optional<std::string_view> token_bytes(int32_t id) const override;

  bool joins_token_bytes() const override { return file_.decoder->is_byte_level(); }

  int32_t max_id() const override { return ids_.back(); }

  std::unique_ptr<TokenEncoder> new_encoder(DType dtype) const override;

 private:
  HuggingFaceTokenizer(TokenizerJson file, const Options& options);

  Result<std::string> decode_text(std::span<const int32_t> ids, bool more_follow) const override;
  std::optional<std::string> rules() const override;
  void collect_tokens();
  std::unique_ptr<TokenEncoder> new_word_encoder(DType dtype) const;
  size_t index_of(int32_t id) const;

  const TokenizerJson file_;
  const Options options_;
  std::optional<fast::MergeTable> merge_table_;
  fast::WordScanner scan_ = nullptr;
  std::optional<fast::WordSplit> split_;  // of a scan_ that needs it
  std::function<size_t(std::string_view)> reference_words_;
  AddedTokenFinder in_text_, in_normalized_;
  std::optional<int32_t> eod_, bos_, pad_;

  std::vector<int32_t> ids_;        // of all tokens, ascending
  std::vector<std::string> texts_;  // by the same index, as the vocabulary writes them
  std::vector<std::string> bytes_;  // by the same index, as they are decoded
};

/// The options that megatron.core.tokenizers passes to Hugging Face's tokenizers, in the revision
/// of `options`; nullopt if that has only the older classes or --legacy-tokenizer requests them.
std::optional<HuggingFaceTokenizer::Options> core_options(const TokenizerOptions& options);

/// Whether the revision of `options` has the post-processor's tokens around a text.
bool includes_special_tokens(const TokenizerOptions& options);

/// Opens the tokenizer of --tokenizer-model, as the revision of `options` has it.
Result<std::unique_ptr<Tokenizer>> open_hugging_face(const TokenizerOptions& options);

}  // namespace meg::tokenizer
