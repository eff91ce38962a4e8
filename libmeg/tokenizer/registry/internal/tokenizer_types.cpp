#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "libmeg/megatron/argument_table.h"
#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/files/internal/bert/bert_word_piece_tokenizer.h"
#include "libmeg/tokenizer/files/internal/gpt2/gpt2_bpe_tokenizer.h"
#include "libmeg/tokenizer/files/internal/huggingface/hugging_face_tokenizer.h"
#include "libmeg/tokenizer/files/internal/null/null_tokenizer.h"
#include "libmeg/tokenizer/files/internal/sentencepiece/open_sentencepiece.h"
#include "libmeg/tokenizer/files/internal/tiktoken/tik_tokenizer.h"
#include "libmeg/tokenizer/registry/internal/identities.h"
#include "libmeg/tokenizer/registry/internal/tokenizer_type.h"

namespace meg::tokenizer {
namespace {

using megatron::MegatronVersion;

constexpr RequiredFlag kVocabFile = {
    "`vocab_file`", [](const TokenizerOptions& options) { return !options.vocab_file.empty(); }};
constexpr RequiredFlag kMergeFile = {
    "`merge_file`", [](const TokenizerOptions& options) { return !options.merge_file.empty(); }};
constexpr RequiredFlag kModelFile = {"`tokenizer_model`", [](const TokenizerOptions& options) {
                                       return !options.tokenizer_model.empty();
                                     }};
constexpr RequiredFlag kSize = {
    "`vocab_size`", [](const TokenizerOptions& options) { return options.vocab_size.has_value(); }};

constexpr std::array kVocabAndMerges = {kVocabFile, kMergeFile};
constexpr std::array kVocab = {kVocabFile};
constexpr std::array kModel = {kModelFile};
constexpr std::array kVocabSize = {kSize};

using OpenTokenizer = Result<std::unique_ptr<Tokenizer>> (*)(const TokenizerOptions& options);

constexpr TokenizerType sentence_piece(std::string_view name, OpenTokenizer open,
                                       TellsPad tells_pad = TellsPad::kAlways) {
  return {.name = name,
          .library = "sentencepiece",
          .required = kModel,
          .open = open,
          .legacy_identity = sentence_piece_legacy_identity,
          .core_identity = sentence_piece_core_identity,
          .tells_pad = tells_pad};
}

constexpr TokenizerType word_piece(std::string_view name) {
  return {.name = name,
          .library = "megatron",
          .required = kVocab,
          .open = wordpiece::open_bert_word_piece,
          .legacy_identity = word_piece_legacy_identity,
          .core_identity = megatron_core_identity,
          .core_knows_name = true};
}

/// All that depends on a tokenizer's name: the flags that it needs, how it is opened, and what the
/// descriptions of index caches call it.
constexpr std::array kTypes = {
    TokenizerType{.name = "GPT2BPETokenizer",
                  .library = "megatron",
                  .required = kVocabAndMerges,
                  .open = open_gpt2_bpe,
                  .legacy_identity = gpt2_bpe_legacy_identity,
                  .core_identity = megatron_core_identity,
                  .core_knows_name = true},
    TokenizerType{.name = "HuggingFaceTokenizer",
                  .library = "huggingface",
                  .required = kModel,
                  .open = open_hugging_face,
                  .legacy_identity = hugging_face_legacy_identity,
                  .core_identity = hugging_face_core_identity,
                  .tells_pad = TellsPad::kSinceCore015,
                  .identified = &MegatronVersion::hugging_face_tokenizer},
    TokenizerType{.name = "TikTokenizer",
                  .library = "tiktoken",
                  .required = kModel,
                  .open = open_tik,
                  .legacy_identity = tik_legacy_identity,
                  .core_identity = tik_core_identity,
                  .tells_pad = TellsPad::kOfCoreClass,
                  .identified = &MegatronVersion::hugging_face_tokenizer},
    sentence_piece("SentencePieceTokenizer", sentencepiece::open_sentencepiece),
    sentence_piece("GPTSentencePieceTokenizer", sentencepiece::open_gpt_sentencepiece),
    // The older class keeps its padding token where its own `pad` does not look.
    sentence_piece("Llama2Tokenizer", sentencepiece::open_llama2, TellsPad::kOfCoreClass),
    word_piece("BertWordPieceLowerCase"),
    word_piece("BertWordPieceCase"),
    TokenizerType{.name = "NullTokenizer",
                  .library = {},
                  .required = kVocabSize,
                  .open = open_null,
                  .legacy_identity = null_legacy_identity,
                  .core_identity = null_core_identity,
                  .identified = &MegatronVersion::null_tokenizer_identifies},
};

std::vector<std::string_view> type_names() {
  std::vector<std::string_view> names;
  names.reserve(std::size(kTypes));
  for (const TokenizerType& type : kTypes) names.push_back(type.name);
  return names;
}

/// Whether a revision of Megatron-LM has a tokenizer type of this name.
bool is_of_megatron(std::string_view name) {
  const megatron::ArgumentRow* row =
      megatron::find_argument(megatron::ArgumentFamily::kTraining, "tokenizer_type");
  const std::vector<std::string_view> words = megatron::words_of(row->choices);
  return std::find(words.begin(), words.end(), name) != words.end();
}

}  // namespace

std::span<const TokenizerType> tokenizer_types() { return kTypes; }

Result<const TokenizerType*> find_tokenizer_type(std::string_view name) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const TokenizerType& type) { return type.name == name; });
  if (found != kTypes.end()) return &*found;
  if (name.empty()) {
    return make_error(StatusCode::kInvalidArgument, "`tokenizer_type` is missing: expected {}",
                      fmt::join(type_names(), ", "));
  }
  // A name that Megatron knows is told from a slip of the pen.
  if (is_of_megatron(name)) {
    return make_error(StatusCode::kUnsupported, "`tokenizer_type` {}: not supported yet", name);
  }
  return make_error(StatusCode::kInvalidArgument, "`tokenizer_type`: expected {}, found {}",
                    fmt::join(type_names(), ", "), text::printable(name));
}

Result<TokenizerMetadata> metadata_of(const TokenizerType& type, const TokenizerOptions& options,
                                      const MegatronVersion& version) {
  const bool is_read = version.core_tokenizers > 0 && !options.legacy_tokenizer;
  if (options.tokenizer_metadata.empty() || type.library.empty() || !is_read) {
    return TokenizerMetadata();
  }
  MEG_ASSIGN_OR_RETURN(TokenizerMetadata metadata,
                       read_tokenizer_metadata(options.tokenizer_metadata));
  if (metadata.library == type.library) return metadata;
  return make_error(StatusCode::kUnsupported,
                    "{}: library: expected \"{}\", that of `tokenizer_type` {}, found {}",
                    options.tokenizer_metadata, type.library, type.name,
                    text::printable(metadata.library));
}

Status check_required_flags(const TokenizerType& type, const TokenizerOptions& options) {
  for (const RequiredFlag& required : type.required) {
    if (required.given(options)) continue;
    return make_error(StatusCode::kInvalidArgument, "{} needs {}", type.name, required.flag);
  }
  return {};
}

}  // namespace meg::tokenizer
