#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "libmeg/megatron/megatron_version.h"
#include "libmeg/tokenizer/tokenizer.h"

namespace meg::tokenizer {

/// What the tokenizer flags of Megatron-LM say; empty where a flag was not given.
struct TokenizerOptions {
  std::string tokenizer_type;         ///< --tokenizer-type
  std::string vocab_file;             ///< --vocab-file
  std::string merge_file;             ///< --merge-file
  std::string tokenizer_model;        ///< --tokenizer-model
  std::optional<int64_t> vocab_size;  ///< --vocab-size, tokens
  bool legacy_tokenizer = false;      ///< --legacy-tokenizer: older classes, core 0.15 and 0.16

  /// The revision to follow; empty: the newest, but GPT2BPETokenizer takes the text of a special
  /// token as ordinary text, as before core 0.15.
  std::optional<megatron::MegatronVersion> version;
};

/// The tokenizer that the flags ask for. kInvalidArgument for an unknown type or a flag that is
/// missing, kUnsupported for a type of Megatron-LM that libmeg lacks, else what its files give.
/// Mirrors Megatron-LM megatron/tokenizer/tokenizer.py: build_tokenizer.
Result<std::unique_ptr<Tokenizer>> open_tokenizer(const TokenizerOptions& options);

}  // namespace meg::tokenizer
