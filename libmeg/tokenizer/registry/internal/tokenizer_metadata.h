#pragma once

#include <string>

#include "libmeg/base/result.h"

namespace meg::tokenizer {

/// The fields of a tokenizer_metadata.json of megatron.core.tokenizers that libmeg uses.
/// Mirrors Megatron-LM megatron/core/tokenizers/megatron_tokenizer.py:
/// MegatronTokenizer.from_pretrained.
struct TokenizerMetadata {
  std::string library;  ///< such as "huggingface"; decides who encodes

  /// The class of model_type, below megatron.core.tokenizers.text.models; used only in the names of
  /// index caches.
  std::string class_name = "default_tokenizer.DefaultTokenizerText";
};

/// kNotFound; kCorruption if it is not such a file; kUnsupported for a model_type that libmeg does
/// not know, and for a class of the user's own, which would be code. A chat template changes no ids
/// of texts.
Result<TokenizerMetadata> read_tokenizer_metadata(const std::string& path);

}  // namespace meg::tokenizer
