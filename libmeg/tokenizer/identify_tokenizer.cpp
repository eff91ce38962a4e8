#include "libmeg/tokenizer/identify_tokenizer.h"

#include <fmt/format.h>

#include <string_view>

namespace meg::tokenizer {
namespace {

constexpr std::string_view kCoreClass =
    "megatron.core.tokenizers.text.models.default_tokenizer.DefaultTokenizerText";
constexpr std::string_view kNone = "None";

using PathList = std::vector<std::optional<std::string>>;
using Options = std::vector<std::pair<std::string, std::string>>;

bool is_word_piece(std::string_view type) { return type.starts_with("BertWordPiece"); }

bool is_sentence_piece(std::string_view type) {
  return type == "SentencePieceTokenizer" || type == "GPTSentencePieceTokenizer" ||
         type == "Llama2Tokenizer";
}

/// As Python's str(): None where the flag was not given.
std::string text_or_none(const std::string& value) {
  return value.empty() ? std::string(kNone) : value;
}

Status require(const std::string& value, std::string_view type, std::string_view flag) {
  if (!value.empty()) return {};
  return make_error(StatusCode::kInvalidArgument, "{} needs {}", type, flag);
}

Result<std::string> vocab_size_text(const TokenizerOptions& options) {
  if (options.vocab_size.has_value()) return fmt::format("{}", *options.vocab_size);
  return make_error(StatusCode::kInvalidArgument, "{} needs --vocab-size", options.tokenizer_type);
}

/// HuggingFaceTokenizer came with core 0.8; NullTokenizer's class had no unique_identifiers before
/// core 0.7, where Megatron-LM ends at the first dataset.
Status check_revision_has(std::string_view type, const megatron::MegatronVersion& version) {
  const bool lacks = (type == "NullTokenizer" && !version.null_tokenizer_identifies) ||
                     (type == "HuggingFaceTokenizer" && !version.hugging_face_tokenizer);
  if (!lacks) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "--tokenizer-type {}: Megatron-LM at {} builds no index caches with it", type,
                    version.name);
}

/// The classes of megatron/training/tokenizer/tokenizer.py.
Result<megatron::TokenizerIdentity> legacy_identity(const TokenizerOptions& options) {
  const std::string& type = options.tokenizer_type;
  megatron::TokenizerIdentity identity{
      .class_name = "_" + type, .tokenizer_path = {}, .options = {}};
  if (type == "GPT2BPETokenizer") {
    MEG_RETURN_IF_ERROR(require(options.vocab_file, type, "--vocab-file"));
    MEG_RETURN_IF_ERROR(require(options.merge_file, type, "--merge-file"));
    identity.tokenizer_path = PathList{options.vocab_file, options.merge_file};
    return identity;
  }
  if (is_word_piece(type)) {
    MEG_RETURN_IF_ERROR(require(options.vocab_file, type, "--vocab-file"));
    identity.class_name = "_BertWordPieceTokenizer";
    identity.tokenizer_path = PathList{options.vocab_file};
    identity.options = {{"lower_case", type == "BertWordPieceLowerCase" ? "True" : "False"},
                        {"vocab_extra_ids", "0"}};
    return identity;
  }
  if (is_sentence_piece(type) || type == "HuggingFaceTokenizer") {
    MEG_RETURN_IF_ERROR(require(options.tokenizer_model, type, "--tokenizer-model"));
    identity.tokenizer_path = PathList{options.tokenizer_model};
    if (is_sentence_piece(type)) identity.options = {{"vocab_extra_ids", "0"}};
    return identity;
  }
  if (type == "NullTokenizer") {
    MEG_ASSIGN_OR_RETURN(const std::string size, vocab_size_text(options));
    identity.tokenizer_path = PathList{std::nullopt};
    identity.options = {{"vocab_size", size}};
    return identity;
  }
  return lacking_tokenizer_type(type);
}

/// Keyword arguments that megatron/core/tokenizers/utils/build_tokenizer.py passes on, in order.
/// The release is the N of core_v0.N.
Options core_options(const TokenizerOptions& options, int release) {
  const std::string& type = options.tokenizer_type;
  const Options files = {{"vocab_file", text_or_none(options.vocab_file)},
                         {"merges_file", text_or_none(options.merge_file)}};
  const std::string on = release >= 17 ? "True" : "False";
  const Options hugging_face = {
      {"use_fast", on}, {"trust_remote_code", "False"}, {"include_special_tokens", on}};
  const std::pair<std::string, std::string> chat = {"chat_template", std::string(kNone)};
  const auto append = [](Options& to, const Options& more) {
    to.insert(to.end(), more.begin(), more.end());
  };

  Options all;
  if (is_sentence_piece(type)) {
    if (release >= 18) all = {chat, {"ignore_extra_whitespaces", "True"}};
    if (release >= 16) {
      append(all, {{"legacy", "False"}, {"special_tokens", std::string(kNone)}});
    }
    return all;
  }
  if (type == "HuggingFaceTokenizer" && release >= 18) all = {chat};
  if (type == "BertWordPieceCase") {
    std::string extra;
    for (int i = 0; i < 100; ++i) extra += fmt::format("{}'<extra_id_{}>'", i > 0 ? ", " : "", i);
    all = {{"additional_special_tokens", "[" + extra + "]"}};
  } else if (release >= 16 && type != "HuggingFaceTokenizer") {
    all = {{"additional_special_tokens", "[]"}};
  }
  append(all, files);
  if (type == "HuggingFaceTokenizer" && release >= 16) {
    append(all, {{"additional_special_tokens", "[]"}});
  }
  if (release >= 16) append(all, hugging_face);
  return all;
}

Result<megatron::TokenizerIdentity> core_identity(const TokenizerOptions& options, int release) {
  const std::string& type = options.tokenizer_type;
  megatron::TokenizerIdentity identity{
      .class_name = std::string(kCoreClass), .tokenizer_path = {}, .options = {}};
  if (type == "NullTokenizer") {
    MEG_ASSIGN_OR_RETURN(const std::string size, vocab_size_text(options));
    identity.options = {{"vocab_size", size}};
    if (release >= 18) identity.options.emplace_back("pad_id", "-1");
    return identity;
  }
  const bool by_name = type == "GPT2BPETokenizer" || is_word_piece(type);
  if (!by_name && !is_sentence_piece(type) && type != "HuggingFaceTokenizer") {
    return lacking_tokenizer_type(type);
  }
  if (!by_name) MEG_RETURN_IF_ERROR(require(options.tokenizer_model, type, "--tokenizer-model"));
  identity.tokenizer_path = by_name ? type : options.tokenizer_model;
  identity.options = core_options(options, release);
  return identity;
}

}  // namespace

Result<megatron::TokenizerIdentity> identify_tokenizer(const TokenizerOptions& options,
                                                       const megatron::MegatronVersion& version,
                                                       bool legacy_tokenizer) {
  if (version.index_cache_form != megatron::IndexCacheForm::kDatasetPath)
    return megatron::TokenizerIdentity{};
  MEG_RETURN_IF_ERROR(check_revision_has(options.tokenizer_type, version));
  if (version.core_tokenizers == 0 || legacy_tokenizer) return legacy_identity(options);
  return core_identity(options, version.core_tokenizers);
}

}  // namespace meg::tokenizer
