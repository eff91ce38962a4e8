#include "tools/common/flag_groups/tokenizer_flags.h"

#include <utility>

#include "libmeg/tokenizer/registry/open_tokenizer.h"

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
  using Given = std::optional<dataset::DatasetTokenizer>;
  return dataset::check_dataset_tokenizers(prefixes, [&options]() -> Result<Given> {
    if (!tokenizer::names_tokenizer(options)) return Given();
    MEG_ASSIGN_OR_RETURN(const auto tokenizer, tokenizer::open_tokenizer(options));
    return dataset_tokenizer(options, *tokenizer);
  });
}

}  // namespace meg::tools
