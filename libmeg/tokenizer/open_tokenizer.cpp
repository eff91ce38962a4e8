#include "libmeg/tokenizer/open_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/bpe/internal/gpt2_bpe_tokenizer.h"

namespace meg::tokenizer {

namespace {

constexpr std::string_view kGpt2Bpe = "GPT2BPETokenizer";

constexpr std::array<std::string_view, 9> kTypes = {kGpt2Bpe,
                                                    "HuggingFaceTokenizer",
                                                    "TikTokenizer",
                                                    "SentencePieceTokenizer",
                                                    "GPTSentencePieceTokenizer",
                                                    "Llama2Tokenizer",
                                                    "BertWordPieceLowerCase",
                                                    "BertWordPieceCase",
                                                    "NullTokenizer"};

Status require_flag(const std::string& value, std::string_view type, std::string_view flag) {
  if (!value.empty()) return {};
  return make_error(StatusCode::kInvalidArgument, "{} needs {}", type, flag);
}

Result<std::unique_ptr<Tokenizer>> open_gpt2_bpe(const TokenizerOptions& options) {
  MEG_RETURN_IF_ERROR(require_flag(options.vocab_file, kGpt2Bpe, "--vocab-file"));
  MEG_RETURN_IF_ERROR(require_flag(options.merge_file, kGpt2Bpe, "--merge-file"));
  GPT2BPETokenizer::Options bpe_options;
  bpe_options.special_tokens_in_text = options.special_tokens_in_text;
  MEG_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                       GPT2BPETokenizer::open(options.vocab_file, options.merge_file, bpe_options));
  return tokenizer;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const TokenizerOptions& options) {
  if (options.tokenizer_type == kGpt2Bpe) return open_gpt2_bpe(options);
  return lacking_tokenizer_type(options.tokenizer_type);
}

Status lacking_tokenizer_type(std::string_view type) {
  if (type.empty()) {
    return make_error(StatusCode::kInvalidArgument, "--tokenizer-type is missing: expected {}",
                      fmt::join(kTypes, ", "));
  }
  if (std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end()) {
    return make_error(StatusCode::kUnsupported, "--tokenizer-type {}: not supported yet", type);
  }
  return make_error(StatusCode::kInvalidArgument, "--tokenizer-type: expected {}, found {}",
                    fmt::join(kTypes, ", "), text::printable(type));
}

}  // namespace meg::tokenizer
