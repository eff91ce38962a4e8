#pragma once

#include <string>

#include "libmeg/base/result.h"

namespace meg::tokenizer {

/// What a tokenizer_metadata.json of megatron.core.tokenizers says that libmeg acts on.
/// Mirrors Megatron-LM megatron/core/tokenizers/megatron_tokenizer.py:
/// MegatronTokenizer.from_pretrained.
struct TokenizerMetadata {
  std::string library;  ///< such as "huggingface"; decides who encodes

  /// Of model_type, below megatron.core.tokenizers.text.models; only index caches name it.
  std::string class_name = "default_tokenizer.DefaultTokenizerText";
};

/// kNotFound, kCorruption for what is no such file, kUnsupported naming a model_type that libmeg
/// does not know, and a class of the user's own, which would be code. A chat template changes no
/// ids of texts.
Result<TokenizerMetadata> read_tokenizer_metadata(const std::string& path);

}  // namespace meg::tokenizer
