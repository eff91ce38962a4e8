#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/files/internal/huggingface/tokenizer_config.h"
#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"
#include "libmeg/tokenizer/models/internal/bpe/vocabulary.h"
#include "libmeg/tokenizer/models/internal/word_model.h"
#include "libmeg/tokenizer/steps/internal/added_tokens.h"
#include "libmeg/tokenizer/steps/internal/decoder.h"
#include "libmeg/tokenizer/steps/internal/normalizer.h"
#include "libmeg/tokenizer/steps/internal/pre_tokenizer.h"

namespace meg::tokenizer {

/// A tokenizer.json with the changes made by the files beside it.
struct TokenizerJson {
  std::unique_ptr<Normalizer> normalizer;  ///< null: none
  std::string normalizer_type;             ///< such as "NFC"; empty: none
  std::string normalizer_json;             ///< the part as the file has it; empty: none
  PreTokenizer pre_tokenizer;
  std::optional<BpeModel> bpe;
  std::unique_ptr<WordModel> words;  ///< the model that is not BPE, or null
  std::string words_digest;          ///< of the part of `words`
  std::unique_ptr<TokenDecoder> decoder;
  std::vector<AddedToken> added_tokens;  ///< by id
  bool splits_special_tokens = false;    ///< see TokenizerConfig

  /// What the post-processor puts around every text.
  std::vector<int32_t> prefix, suffix;

  Vocabulary vocabulary;
  int missing_bytes = 0;   ///< of those in UTF-8, that the vocabulary lacks behind ByteLevel
  int64_t vocab_size = 0;  ///< tokens of the vocabulary and added ones

  std::optional<int32_t> token_id(std::string_view token) const;
};

/// json: the content of a tokenizer.json; name: the file's, for errors. config gains the names that
/// tokens have without it: from "padding", by default of its class and, with adds_stand_ins, from
/// megatron.core.tokenizers (HuggingFaceTokenizer.__init__), which adds eos_token once more as
/// sep_token, or bos_token as cls_token, or the other way round, where only one of them is named.
/// kCorruption and kUnsupported with the place of the part.
Result<TokenizerJson> read_tokenizer_json(std::string_view json, const std::string& name,
                                          bool adds_stand_ins, TokenizerConfig& config);

}  // namespace meg::tokenizer
