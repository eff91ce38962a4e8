#include "libmeg/tokenizer/files/internal/tiktoken/tik_tokenizer.h"

#include <algorithm>
#include <utility>

#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/files/internal/tiktoken/rank_file.h"
#include "libmeg/tokenizer/json/internal/text_file.h"
#include "libmeg/tokenizer/models/internal/bpe/fast/fast_encoder.h"
#include "libmeg/tokenizer/models/internal/bpe/rank_model_builder.h"
#include "libmeg/tokenizer/models/internal/bpe/reference/reference_encoder.h"
#include "libmeg/tokenizer/steps/internal/hugging_face_encoder.h"

namespace meg::tokenizer {
namespace {

std::vector<AddedToken> added_tokens(const TikTokenizer::Options& options) {
  std::vector<AddedToken> tokens;
  if (!options.specials_in_text) return tokens;
  for (size_t i = 0; i < options.special_tokens.size(); ++i) {
    const std::string& text = options.special_tokens[i];
    tokens.push_back({.content = text, .matched = text, .id = static_cast<int32_t>(i)});
  }
  return tokens;
}

Status wrong(std::string message) {
  return Status(StatusCode::kInvalidArgument, "TikTokenizer: " + std::move(message));
}

/// The special tokens in front of the vocabulary: those given, then <SPECIAL_N>.
Result<std::vector<std::string>> special_tokens(const TokenizerOptions& options, bool legacy,
                                                int64_t vocab_size) {
  // core's class looks up <mask>, <pad>, <cls> and <sep> as well.
  std::vector<std::string> required = {"<unk>", "<s>", "</s>"};
  if (!legacy) required.insert(required.end(), {"<mask>", "<pad>", "<cls>", "<sep>"});
  std::vector<std::string> tokens =
      options.tiktoken_special_tokens.empty() ? required : options.tiktoken_special_tokens;
  for (const std::string& token : required) {
    if (std::find(tokens.begin(), tokens.end(), token) != tokens.end()) continue;
    return wrong(fmt::format("special tokens: expected {} among them, found none", token));
  }
  const int64_t count = options.tiktoken_num_special_tokens;
  if (count < static_cast<int64_t>(tokens.size()) || count >= vocab_size) {
    return wrong(
        fmt::format("`tiktoken_num_special_tokens`: expected {} to less than the {} tokens of the "
                    "vocabulary, found {}",
                    tokens.size(), vocab_size, count));
  }
  for (auto i = static_cast<int64_t>(tokens.size()); i < count; ++i) {
    // Ids of the vocabulary begin after all of them, so those without a name hold their places.
    tokens.push_back(fmt::format("<SPECIAL_{}>", i));
  }
  std::vector<std::string> sorted = tokens;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return wrong(fmt::format("special tokens: found {} twice", text::printable(*twice)));
  }
  return tokens;
}

Result<std::string_view> pattern_name(const TokenizerOptions& options, bool legacy) {
  const std::string& name = options.tiktoken_pattern;
  if (name == "v1" || name == "v2") return std::string_view(name);
  if (name.empty() && !legacy) return std::string_view("v2");
  if (name.empty()) return wrong("needs `tiktoken_pattern`");
  return wrong("`tiktoken_pattern`: expected v1 or v2, found " + text::printable(name));
}

}  // namespace

TikTokenizer::TikTokenizer(BpeModel model, fast::MergeTable table, const Options& options)
    : model_(std::move(model)),
      merge_table_(std::move(table)),
      options_(options),
      in_text_(added_tokens(options_)) {}

Result<std::unique_ptr<TikTokenizer>> TikTokenizer::create(const std::vector<std::string>& tokens,
                                                           const std::string& name,
                                                           const Options& options) {
  const auto first_id = static_cast<int32_t>(options.special_tokens.size());
  MEG_ASSIGN_OR_RETURN(BpeModel model, RankModelBuilder::build(tokens, first_id, name));
  MEG_ASSIGN_OR_RETURN(fast::MergeTable table, fast::MergeTable::build(model));
  return std::unique_ptr<TikTokenizer>(
      new TikTokenizer(std::move(model), std::move(table), options));
}

std::optional<int32_t> TikTokenizer::special_id(std::string_view text) const {
  const std::vector<std::string>& tokens = options_.special_tokens;
  const auto found = std::find(tokens.begin(), tokens.end(), text);
  if (found == tokens.end()) return std::nullopt;
  return static_cast<int32_t>(found - tokens.begin());
}

std::vector<SpecialToken> TikTokenizer::special_tokens() const {
  std::vector<SpecialToken> tokens;
  for (size_t i = 0; i < options_.special_tokens.size(); ++i) {
    tokens.push_back({options_.special_tokens[i], static_cast<int32_t>(i)});
  }
  return tokens;
}

std::optional<std::string_view> TikTokenizer::token_bytes(int32_t id) const {
  const auto specials = static_cast<int32_t>(options_.special_tokens.size());
  if (id >= 0 && id < specials) return options_.special_tokens[static_cast<size_t>(id)];
  return model_.token_bytes(id);
}

std::unique_ptr<TokenEncoder> TikTokenizer::new_word_encoder(DType dtype) const {
  // Known by now, and its expression compiles: pattern_name() lets no other through.
  const KnownPattern& pattern = *find_pattern_by_name(options_.pattern);
  if (!options_.reference) {
    const InstructionSet set = best_instruction_set();
    return fast::new_fast_encoder(model_, merge_table_, dtype, pattern.scanner(set), set);
  }
  const RegexMatcher matcher =
      *RegexMatcher::compile(pattern.regex, "pattern", RegexMatcher::Dialect::kTiktoken);
  return reference::new_reference_encoder(
      model_, dtype, [matcher](std::string_view text) { return (*matcher.find(text, 0))->second; });
}

std::unique_ptr<TokenEncoder> TikTokenizer::new_encoder(DType dtype) const {
  std::unique_ptr<TokenEncoder> words = new_word_encoder(dtype);
  if (in_text_.empty()) return words;
  const HuggingFaceEncoder::Parts parts{.prefix = {},
                                        .suffix = {},
                                        .in_text = in_text_,
                                        .normalizer = nullptr,
                                        .in_normalized = none_,
                                        .pre_tokenizer = pre_tokenizer_};
  return std::make_unique<HuggingFaceEncoder>(parts, std::move(words));
}

Result<std::string> TikTokenizer::decode_text(std::span<const int32_t> ids,
                                              bool more_follow) const {
  return decode_token_bytes(*this, ids, more_follow);
}

Result<std::unique_ptr<Tokenizer>> open_tik(const TokenizerOptions& options) {
  const megatron::MegatronVersion version =
      options.version.value_or(megatron::newest_megatron_version());
  const bool legacy = version.core_tokenizers == 0 || options.legacy_tokenizer;
  const int64_t vocab_size = options.vocab_size.value_or(kTiktokenVocabSize);
  TikTokenizer::Options chosen;
  chosen.specials_in_text = !legacy;
  MEG_ASSIGN_OR_RETURN(chosen.pattern, pattern_name(options, legacy));
  MEG_ASSIGN_OR_RETURN(chosen.special_tokens, special_tokens(options, legacy, vocab_size));
  const std::string& name = options.tokenizer_model;
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, open_tokenizer_file(name));
  MEG_ASSIGN_OR_RETURN(std::vector<std::string> tokens, read_rank_file(file.text(), name));
  const auto inner = static_cast<size_t>(vocab_size - options.tiktoken_num_special_tokens);
  if (tokens.size() < inner) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected at least {} tokens (`vocab_size` {} less {} special tokens), "
                      "found {}",
                      name, inner, vocab_size, options.tiktoken_num_special_tokens, tokens.size());
  }
  // Megatron takes the first ones as well: published files have more tokens than its models.
  tokens.resize(inner);
  for (const std::string& token : tokens) {
    if (std::find(chosen.special_tokens.begin(), chosen.special_tokens.end(), token) ==
        chosen.special_tokens.end()) {
      continue;
    }
    return make_error(StatusCode::kCorruption, "{}: special token {}: it is also in the vocabulary",
                      name, text::printable(token));
  }
  MEG_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                       TikTokenizer::create(tokens, name, chosen));
  return tokenizer;
}

}  // namespace meg::tokenizer
