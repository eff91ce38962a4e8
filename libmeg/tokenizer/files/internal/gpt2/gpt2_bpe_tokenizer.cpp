#include "libmeg/tokenizer/files/internal/gpt2/gpt2_bpe_tokenizer.h"

#include <utility>

#include "libmeg/tokenizer/files/internal/gpt2/special_token_encoder.h"
#include "libmeg/tokenizer/models/internal/bpe/fast/fast_encoder.h"
#include "libmeg/tokenizer/models/internal/bpe/reference/reference_encoder.h"
#include "libmeg/tokenizer/steps/internal/pre_tokenizer.h"
#include "libmeg/tokenizer/words/internal/reference/gpt2_pretokenizer.h"
#include "libmeg/tokenizer/words/internal/vector_functions.h"

namespace meg::tokenizer {

GPT2BPETokenizer::GPT2BPETokenizer(BpeModel model, const Options& options)
    : model_(std::move(model)), options_(options) {
  warnings_ = model_.warnings();
}

Result<std::unique_ptr<GPT2BPETokenizer>> GPT2BPETokenizer::open(const std::string& vocab_file,
                                                                 const std::string& merge_file,
                                                                 const Options& options) {
  MEG_ASSIGN_OR_RETURN(BpeModel model, BpeModel::load(vocab_file, merge_file));
  std::unique_ptr<GPT2BPETokenizer> tokenizer(new GPT2BPETokenizer(std::move(model), options));
  if (options.implementation == Implementation::kFast) {
    MEG_ASSIGN_OR_RETURN(tokenizer->merge_table_,
                         tokenizer::fast::MergeTable::build(tokenizer->model_));
  }
  return tokenizer;
}

std::unique_ptr<TokenEncoder> GPT2BPETokenizer::new_encoder(DType dtype) const {
  std::unique_ptr<TokenEncoder> encoder = new_text_encoder(dtype);
  const std::optional<int32_t> end_of_text = eod();
  if (!options_.special_tokens_in_text || !end_of_text) return encoder;
  return new_special_token_encoder(std::move(encoder), std::string(kEndOfText), *end_of_text);
}

std::unique_ptr<TokenEncoder> GPT2BPETokenizer::new_text_encoder(DType dtype) const {
  if (!merge_table_)
    return tokenizer::reference::new_reference_encoder(model_, dtype,
                                                       tokenizer::reference::first_word_size);
  return tokenizer::fast::new_fast_encoder(
      model_, *merge_table_, dtype,
      tokenizer::fast::vector_functions(options_.instruction_set).scan_words,
      options_.instruction_set);
}

Result<std::string> GPT2BPETokenizer::decode_text(std::span<const int32_t> ids,
                                                  bool more_follow) const {
  return decode_token_bytes(*this, ids, more_follow);
}

std::vector<SpecialToken> GPT2BPETokenizer::special_tokens() const {
  if (!eod()) return {};
  return {{.text = std::string(kEndOfText), .id = *eod()}};
}

/// Returns the rules of a tokenizer.json with the same merges.
std::optional<std::string> GPT2BPETokenizer::rules() const {
  std::set<int32_t> apart;
  if (eod()) apart.insert(*eod());
  PreTokenizer pattern;
  pattern.byte_level = true;
  pattern.words = kGpt2Pattern;
  return model_.rules(apart) + pattern.rules();
}

Result<std::unique_ptr<Tokenizer>> open_gpt2_bpe(const TokenizerOptions& options) {
  GPT2BPETokenizer::Options bpe_options;
  bpe_options.special_tokens_in_text = options.version.has_value() &&
                                       options.version->gpt2_special_tokens_in_text &&
                                       !options.legacy_tokenizer;
  MEG_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                       GPT2BPETokenizer::open(options.vocab_file, options.merge_file, bpe_options));
  return tokenizer;
}

}  // namespace meg::tokenizer
