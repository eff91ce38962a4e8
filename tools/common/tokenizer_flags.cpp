#include "tools/common/tokenizer_flags.h"

#include <memory>
#include <utility>
#include <vector>

namespace meg::tools {

tokenizer::TokenizerOptions default_tokenizer() {
  tokenizer::TokenizerOptions tokenizer;
  tokenizer.tokenizer_type = "GPT2BPETokenizer";
  return tokenizer;
}

void read_tokenizer_args(megatron::FieldReader& args, tokenizer::TokenizerOptions& tokenizer) {
  args.take("tokenizer_type", tokenizer.tokenizer_type);
  args.take("vocab_file", tokenizer.vocab_file);
  args.take("merge_file", tokenizer.merge_file);
  args.take("tokenizer_model", tokenizer.tokenizer_model);
  args.take("metadata_path", tokenizer.tokenizer_metadata);
  args.take("vocab_size", tokenizer.vocab_size);
  args.take("legacy_tokenizer", tokenizer.legacy_tokenizer);
  args.take("vocab_extra_ids", tokenizer.vocab_extra_ids);
  args.take("tiktoken_pattern", tokenizer.tiktoken_pattern);
  args.take("tiktoken_num_special_tokens", tokenizer.tiktoken_num_special_tokens);
  args.take("tiktoken_special_tokens", tokenizer.tiktoken_special_tokens);
  args.take("null_tokenizer_eod_id", tokenizer.null_tokenizer_eod_id);
  args.take("null_tokenizer_pad_id", tokenizer.null_tokenizer_pad_id);
  bool without_special_tokens = false;
  args.take("tokenizer_hf_no_include_special_tokens", without_special_tokens);
  if (without_special_tokens) tokenizer.hf_include_special_tokens = false;
}

std::optional<dataset::DatasetTokenizer> dataset_tokenizer(
    const tokenizer::TokenizerOptions& options, const tokenizer::Tokenizer& tokenizer) {
  std::optional<std::string> identity = tokenizer.identity();
  if (!identity) return std::nullopt;
  return dataset::DatasetTokenizer{.type = options.tokenizer_type,
                                   .identity = *std::move(identity),
                                   .vocab_size = tokenizer.vocab_size()};
}

Status check_dataset_tokenizers(std::span<const std::string> prefixes,
                                const tokenizer::TokenizerOptions& options) {
  std::vector<std::string> named;
  for (const std::string& prefix : prefixes) {
    MEG_ASSIGN_OR_RETURN(const auto made, dataset::read_dataset_tokenizer(prefix));
    if (made) named.push_back(prefix);
  }
  if (named.empty() || !tokenizer::names_tokenizer(options)) return {};
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<tokenizer::Tokenizer> tokenizer,
                       tokenizer::open_tokenizer(options));
  const auto given = dataset_tokenizer(options, *tokenizer);
  if (!given) return {};
  for (const std::string& prefix : named) {
    MEG_RETURN_IF_ERROR(dataset::check_dataset_tokenizer(prefix, *given));
  }
  return {};
}

}  // namespace meg::tools
