#include "libmeg/tokenizer/files/internal/sentencepiece/open_sentencepiece.h"

#include <utility>

#include "libmeg/megatron/megatron_version.h"
#include "libmeg/tokenizer/files/internal/sentencepiece/sentencepiece_tokenizer.h"

namespace meg::tokenizer::sentencepiece {

namespace {

/// Whether tokenizers are those of megatron.core.tokenizers, which are the same for all three
/// types.
bool core_classes(const TokenizerOptions& options) {
  const int release = options.version.value_or(megatron::newest_megatron_version()).core_tokenizers;
  return release > 0 && !options.legacy_tokenizer;
}

Result<std::unique_ptr<Tokenizer>> open(const TokenizerOptions& options,
                                        const SentencePieceTokenizer::Options& kind) {
  MEG_ASSIGN_OR_RETURN(ModelFile file, ModelFile::load(options.tokenizer_model));
  Result<Model> model = Model::build(std::move(file));
  if (!model) return model.error().with_prefix(options.tokenizer_model);
  auto tokenizer = SentencePieceTokenizer::build(std::move(*model), kind);
  if (!tokenizer) return tokenizer.error().with_prefix(options.tokenizer_model);
  return std::unique_ptr<Tokenizer>(std::move(*tokenizer));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> open_sentencepiece(const TokenizerOptions& options) {
  SentencePieceTokenizer::Options kind;
  kind.special_tokens = !core_classes(options);
  kind.extra_ids = options.vocab_extra_ids;
  return open(options, kind);
}

Result<std::unique_ptr<Tokenizer>> open_gpt_sentencepiece(const TokenizerOptions& options) {
  return open(options, {});
}

Result<std::unique_ptr<Tokenizer>> open_llama2(const TokenizerOptions& options) {
  SentencePieceTokenizer::Options kind;
  kind.bos_in_front = !core_classes(options);
  return open(options, kind);
}

}  // namespace meg::tokenizer::sentencepiece
