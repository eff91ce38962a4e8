#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "libmeg/tokenizer/tokenizer.h"

namespace meg::tokenizer {

/// What the tokenizer flags of Megatron-LM say; empty where a flag was not given.
struct TokenizerOptions {
  std::string tokenizer_type;           ///< --tokenizer-type
  std::string vocab_file;               ///< --vocab-file
  std::string merge_file;               ///< --merge-file
  std::string tokenizer_model;          ///< --tokenizer-model
  std::optional<int64_t> vocab_size;    ///< --vocab-size, tokens
  bool special_tokens_in_text = false;  ///< GPT2BPETokenizer: as in Megatron core since 0.15
};

/// The tokenizer that the flags ask for. kInvalidArgument for an unknown type or a flag that is
/// missing, kUnsupported for a type of Megatron-LM that libmeg lacks, else what its files give.
/// Mirrors Megatron-LM megatron/tokenizer/tokenizer.py: build_tokenizer.
Result<std::unique_ptr<Tokenizer>> open_tokenizer(const TokenizerOptions& options);

/// The error of a --tokenizer-type that cannot be taken: kUnsupported for one of Megatron-LM's,
/// kInvalidArgument, with their names, where it is unknown or empty.
Status lacking_tokenizer_type(std::string_view type);

}  // namespace meg::tokenizer
