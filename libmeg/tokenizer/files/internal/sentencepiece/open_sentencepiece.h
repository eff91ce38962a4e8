#pragma once

#include <memory>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"

namespace meg::tokenizer::sentencepiece {

// Each opens the model file of --tokenizer-model. Errors: Model::build's.

/// Cuts special tokens out of texts, but since megatron.core.tokenizers.
Result<std::unique_ptr<Tokenizer>> open_sentencepiece(const TokenizerOptions& options);

/// Texts as the model encodes them.
Result<std::unique_ptr<Tokenizer>> open_gpt_sentencepiece(const TokenizerOptions& options);

/// Every text begins with <s>, but since megatron.core.tokenizers.
Result<std::unique_ptr<Tokenizer>> open_llama2(const TokenizerOptions& options);

}  // namespace meg::tokenizer::sentencepiece
