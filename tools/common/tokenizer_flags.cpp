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
