#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/megatron/field_reader.h"
#include "libmeg/megatron/megatron_version.h"

namespace meg::tokenizer {

/// The values of Megatron-LM's tokenizer flags; empty if a flag was not given.
struct TokenizerOptions {
  std::string tokenizer_type;         ///< --tokenizer-type
  std::string vocab_file;             ///< --vocab-file
  std::string merge_file;             ///< --merge-file
  std::string tokenizer_model;        ///< --tokenizer-model
  std::string tokenizer_metadata;     ///< --tokenizer-metadata, of megatron.core.tokenizers
  std::optional<int64_t> vocab_size;  ///< --vocab-size, tokens
  bool legacy_tokenizer = false;      ///< --legacy-tokenizer: older classes, core 0.15 and 0.16

  /// The revision to follow; nullopt: the newest, except that GPT2BPETokenizer treats the text of a
  /// special token as ordinary text, as before core 0.15.
  std::optional<megatron::MegatronVersion> version;

  /// SentencePieceTokenizer and BertWordPiece* before megatron.core.tokenizers: further tokens
  /// <extra_id_0>, ... (--vocab-extra-ids)
  int64_t vocab_extra_ids = 0;

  // TikTokenizer.
  std::string tiktoken_pattern;                      ///< --tiktoken-pattern: v1 or v2
  int64_t tiktoken_num_special_tokens = 1000;        ///< --tiktoken-num-special-tokens
  std::vector<std::string> tiktoken_special_tokens;  ///< --tiktoken-special-tokens; empty: none

  // NullTokenizer.
  std::optional<int64_t> null_tokenizer_eod_id;  ///< --null-tokenizer-eod-id
  std::optional<int64_t> null_tokenizer_pad_id;  ///< --null-tokenizer-pad-id

  /// HuggingFaceTokenizer: whether to add the tokens that the post-processor puts around a text
  /// (--tokenizer-hf-include-special-tokens, --tokenizer-hf-no-include-special-tokens); empty: as
  /// the revision has it.
  std::optional<bool> hf_include_special_tokens;
  /// --tokenizer-hf-use-fast: only part of the names of index caches; tokens are always those of
  /// the fast tokenizer. nullopt: the revision's default.
  std::optional<bool> hf_use_fast;

  /// Megatron's arguments of a tokenizer, by their fields; version is none of them.
  void take_fields(megatron::FieldReader& args);
};

}  // namespace meg::tokenizer
