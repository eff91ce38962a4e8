#include "libmeg/tokenizer/registry/internal/identities.h"

#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/tokenizer/words/internal/pattern_scan.h"

namespace meg::tokenizer {
namespace {

using megatron::TokenizerIdentity;
using PathList = std::vector<std::optional<std::string>>;
using Options = std::vector<std::pair<std::string, std::string>>;

constexpr std::string_view kNone = "None";

/// Like Python's str(): None where the flag was not given.
std::string text_or_none(const std::string& value) {
  return value.empty() ? std::string(kNone) : value;
}

std::string size_or_none(const std::optional<int64_t>& size) {
  return size ? fmt::format("{}", *size) : std::string(kNone);
}

/// Writes a list of strings without quotes or backslashes in them as Python does.
std::string list_or_none(const std::vector<std::string>& list) {
  return list.empty() ? std::string(kNone) : fmt::format("['{}']", fmt::join(list, "', '"));
}

void append(Options& to, const Options& more) { to.insert(to.end(), more.begin(), more.end()); }

Options files_of(const TokenizerOptions& options) {
  return {{"vocab_file", text_or_none(options.vocab_file)},
          {"merges_file", text_or_none(options.merge_file)}};
}

/// The flags that Hugging Face's class takes, since core 0.16.
Options hugging_face_switches(const TokenizerOptions& options, int release) {
  // Keys, values and their order are those of the release: they are hashed into the names of its
  // index caches, where one byte more is another cache.
  if (release < 16) return {};
  const bool on = release >= 17;
  const bool specials = options.hf_include_special_tokens.value_or(on);
  return {{"use_fast", options.hf_use_fast.value_or(on) ? "True" : "False"},
          {"trust_remote_code", "False"},
          {"include_special_tokens", specials ? "True" : "False"}};
}

std::string extra_ids() {
  std::string list;
  for (int i = 0; i < 100; ++i) list += fmt::format("{}'<extra_id_{}>'", i > 0 ? ", " : "", i);
  return "[" + list + "]";
}

TokenizerIdentity core(TokenizerIdentity::Path path, Options options) {
  return {.class_name = {}, .tokenizer_path = std::move(path), .options = std::move(options)};
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
                {{"lower_case", lower ? "True" : "False"},
                 {"vocab_extra_ids", fmt::format("{}", options.vocab_extra_ids)}});
}

TokenizerIdentity sentence_piece_legacy_identity(const TokenizerOptions& options) {
  const bool adds = options.tokenizer_type == "SentencePieceTokenizer";
  const int64_t extra_ids = adds ? options.vocab_extra_ids : 0;
  return legacy("_" + options.tokenizer_type, {options.tokenizer_model},
                {{"vocab_extra_ids", fmt::format("{}", extra_ids)}});
}

TokenizerIdentity hugging_face_legacy_identity(const TokenizerOptions& options) {
  return legacy("_HuggingFaceTokenizer", {options.tokenizer_model});
}

TokenizerIdentity tik_legacy_identity(const TokenizerOptions& options) {
  const std::string_view name = options.tiktoken_pattern == "v1" ? "v1" : "v2";
  return legacy("CustomTikTokenizer", {options.tokenizer_model},
                {{"pattern", std::string(find_pattern_by_name(name)->regex)},
                 {"vocab_size", size_or_none(options.vocab_size)},
                 {"num_special_tokens", fmt::format("{}", options.tiktoken_num_special_tokens)},
                 {"special_tokens", list_or_none(options.tiktoken_special_tokens)}});
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
  append(all, hugging_face_switches(options, release));
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
  append(all, hugging_face_switches(options, release));
  return core(options.tokenizer_model, all);
}

TokenizerIdentity tik_core_identity(const TokenizerOptions& options, int release) {
  Options all;
  if (release >= 18) all = {{"chat_template", std::string(kNone)}};
  if (!options.tiktoken_pattern.empty()) all.emplace_back("pattern", options.tiktoken_pattern);
  if (options.vocab_size) all.emplace_back("vocab_size", size_or_none(options.vocab_size));
  append(all, {{"num_special_tokens", fmt::format("{}", options.tiktoken_num_special_tokens)},
               {"special_tokens", list_or_none(options.tiktoken_special_tokens)}});
  return core(options.tokenizer_model, all);
}

TokenizerIdentity null_core_identity(const TokenizerOptions& options, int release) {
  Options all = {{"vocab_size", fmt::format("{}", options.vocab_size.value_or(0))}};
  if (release >= 18) {
    const std::optional<int64_t>& eod = options.null_tokenizer_eod_id;
    if (eod) all.emplace_back("eod_id", fmt::format("{}", *eod));
    all.emplace_back("pad_id", fmt::format("{}", options.null_tokenizer_pad_id.value_or(-1)));
  }
  return core(std::monostate(), all);
}

}  // namespace meg::tokenizer
