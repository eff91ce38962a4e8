#include "libmeg/tokenizer/internal/identities.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meg::tokenizer {
namespace {

using megatron::TokenizerIdentity;
using PathList = std::vector<std::optional<std::string>>;
using Options = std::vector<std::pair<std::string, std::string>>;

constexpr std::string_view kCoreClass =
    "megatron.core.tokenizers.text.models.default_tokenizer.DefaultTokenizerText";
constexpr std::string_view kNone = "None";

/// As Python's str(): None where the flag was not given.
std::string text_or_none(const std::string& value) {
  return value.empty() ? std::string(kNone) : value;
}

void append(Options& to, const Options& more) { to.insert(to.end(), more.begin(), more.end()); }

Options files_of(const TokenizerOptions& options) {
  return {{"vocab_file", text_or_none(options.vocab_file)},
          {"merges_file", text_or_none(options.merge_file)}};
}

/// The flags that Hugging Face's class takes, since core 0.16.
Options hugging_face_switches(int release) {
  if (release < 16) return {};
  const std::string on = release >= 17 ? "True" : "False";
  return {{"use_fast", on}, {"trust_remote_code", "False"}, {"include_special_tokens", on}};
}

std::string extra_ids() {
  std::string list;
  for (int i = 0; i < 100; ++i) list += fmt::format("{}'<extra_id_{}>'", i > 0 ? ", " : "", i);
  return "[" + list + "]";
}

TokenizerIdentity core(TokenizerIdentity::Path path, Options options) {
  return {.class_name = std::string(kCoreClass),
          .tokenizer_path = std::move(path),
          .options = std::move(options)};
}

TokenizerIdentity legacy(std::string class_name, PathList files, Options options = {}) {
  return {.class_name = std::move(class_name),
          .tokenizer_path = std::move(files),
          .options = std::move(options)};
}

}  // namespace

TokenizerIdentity gpt2_bpe_legacy_identity(const TokenizerOptions& options) {
  return legacy("_GPT2BPETokenizer", {options.vocab_file, options.merge_file});
}

TokenizerIdentity word_piece_legacy_identity(const TokenizerOptions& options) {
  const bool lower = options.tokenizer_type == "BertWordPieceLowerCase";
  return legacy("_BertWordPieceTokenizer", {options.vocab_file},
                {{"lower_case", lower ? "True" : "False"}, {"vocab_extra_ids", "0"}});
}

TokenizerIdentity sentence_piece_legacy_identity(const TokenizerOptions& options) {
  return legacy("_" + options.tokenizer_type, {options.tokenizer_model},
                {{"vocab_extra_ids", "0"}});
}

TokenizerIdentity hugging_face_legacy_identity(const TokenizerOptions& options) {
  return legacy("_HuggingFaceTokenizer", {options.tokenizer_model});
}

TokenizerIdentity null_legacy_identity(const TokenizerOptions& options) {
  return legacy("_NullTokenizer", {std::nullopt},
                {{"vocab_size", fmt::format("{}", options.vocab_size.value_or(0))}});
}

TokenizerIdentity megatron_core_identity(const TokenizerOptions& options, int release) {
  Options all;
  if (options.tokenizer_type == "BertWordPieceCase") {
    all = {{"additional_special_tokens", extra_ids()}};
  } else if (release >= 16) {
    all = {{"additional_special_tokens", "[]"}};
  }
  append(all, files_of(options));
  append(all, hugging_face_switches(release));
  return core(options.tokenizer_type, all);
}

TokenizerIdentity sentence_piece_core_identity(const TokenizerOptions& options, int release) {
  Options all;
  if (release >= 18) {
    all = {{"chat_template", std::string(kNone)}, {"ignore_extra_whitespaces", "True"}};
  }
  if (release >= 16) {
    append(all, {{"legacy", "False"}, {"special_tokens", std::string(kNone)}});
  }
  return core(options.tokenizer_model, all);
}

TokenizerIdentity hugging_face_core_identity(const TokenizerOptions& options, int release) {
  Options all;
  if (release >= 18) all = {{"chat_template", std::string(kNone)}};
  append(all, files_of(options));
  if (release >= 16) append(all, {{"additional_special_tokens", "[]"}});
  append(all, hugging_face_switches(release));
  return core(options.tokenizer_model, all);
}

TokenizerIdentity null_core_identity(const TokenizerOptions& options, int release) {
  Options all = {{"vocab_size", fmt::format("{}", options.vocab_size.value_or(0))}};
  if (release >= 18) all.emplace_back("pad_id", "-1");
  return core(std::monostate(), all);
}

}  // namespace meg::tokenizer
