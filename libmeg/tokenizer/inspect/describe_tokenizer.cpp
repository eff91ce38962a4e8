#include "libmeg/tokenizer/inspect/describe_tokenizer.h"

#include <array>
#include <filesystem>
#include <optional>

#include "libmeg/tokenizer/json/internal/json_file.h"
#include "libmeg/tokenizer/json/internal/text_file.h"
#include "libmeg/tokenizer/models/internal/bpe/vocabulary.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/model_file.h"
#include "libmeg/tokenizer/steps/internal/pre_tokenizer.h"

namespace meg::tokenizer {
namespace {

using Description = Result<TokenizerDescription>;

Description describe_gpt2(const TokenizerOptions&) {
  return TokenizerDescription{"BPE of bytes", fmt::format("gpt2: {}", kGpt2Pattern), "none"};
}

/// The JSON of a part that may be missing.
std::string json_or_none(const JsonPart& root, std::string_view name) {
  const std::optional<JsonPart> part = root.find(name);
  return part ? part->json() : "none";
}

Description describe_hugging_face(const TokenizerOptions& options) {
  std::filesystem::path path(options.tokenizer_model);
  if (std::filesystem::is_directory(path)) path /= "tokenizer.json";
  MEG_ASSIGN_OR_RETURN(const JsonFile file, JsonFile::open(path.string()));
  MEG_ASSIGN_OR_RETURN(const JsonPart model, file.root().member("model"));
  MEG_ASSIGN_OR_RETURN(const std::string type, model.text("type", "BPE"));
  return TokenizerDescription{type, json_or_none(file.root(), "pre_tokenizer"),
                              json_or_none(file.root(), "normalizer")};
}

Description describe_tik(const TokenizerOptions& options) {
  const std::string name = options.tiktoken_pattern.empty() ? "v2" : options.tiktoken_pattern;
  const KnownPattern* const pattern = find_pattern_by_name(name);
  return TokenizerDescription{"BPE of bytes by ranks", fmt::format("{}: {}", name, pattern->regex),
                              "none"};
}

Description describe_sentence_piece(const TokenizerOptions& options) {
  // The index is the file's number, which begins with 1.
  constexpr std::array<std::string_view, 5> kTypes = {"", "Unigram", "BPE", "words", "characters"};
  MEG_ASSIGN_OR_RETURN(const sentencepiece::ModelFile model,
                       sentencepiece::ModelFile::load(options.tokenizer_model));
  const sentencepiece::NormalizerSpec& normalizer = model.normalizer;
  std::string rules = normalizer.precompiled_charsmap.empty() ? "" : "precompiled_charsmap, ";
  if (normalizer.add_dummy_prefix) rules += "add_dummy_prefix, ";
  if (normalizer.remove_extra_whitespaces) rules += "remove_extra_whitespaces, ";
  if (normalizer.escape_whitespaces) rules += "escape_whitespaces, ";
  rules = rules.empty() ? "none" : rules.substr(0, rules.size() - 2);
  return TokenizerDescription{
      fmt::format("SentencePiece {}{}", kTypes[static_cast<size_t>(model.type)],
                  model.byte_fallback ? ", byte_fallback" : ""),
      "none", rules};
}

constexpr std::string_view kBertPattern = "whitespace, punctuation, Chinese characters";

Description describe_lower_case(const TokenizerOptions&) {
  return TokenizerDescription{"WordPiece", std::string(kBertPattern), "lower case, no accents"};
}

Description describe_cased(const TokenizerOptions&) {
  return TokenizerDescription{"WordPiece", std::string(kBertPattern), "none"};
}

Description describe_null(const TokenizerOptions&) {
  return TokenizerDescription{"numbers", "whitespace", "none"};
}

struct Describer {
  std::string_view type;
  Description (*describe)(const TokenizerOptions& options);
};

constexpr Describer kDescribers[] = {{"GPT2BPETokenizer", describe_gpt2},
                                     {"HuggingFaceTokenizer", describe_hugging_face},
                                     {"TikTokenizer", describe_tik},
                                     {"SentencePieceTokenizer", describe_sentence_piece},
                                     {"GPTSentencePieceTokenizer", describe_sentence_piece},
                                     {"Llama2Tokenizer", describe_sentence_piece},
                                     {"BertWordPieceLowerCase", describe_lower_case},
                                     {"BertWordPieceCase", describe_cased},
                                     {"NullTokenizer", describe_null}};

}  // namespace

Result<TokenizerDescription> describe_tokenizer(const TokenizerOptions& options) {
  for (const auto& [type, describe] : kDescribers) {
    if (type == options.tokenizer_type) return describe(options);
  }
  return make_error(StatusCode::kUnsupported, "`tokenizer_type` {}: it has no description",
                    options.tokenizer_type);
}

Result<int64_t> count_tokens(const std::string& vocab_file) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, open_tokenizer_file(vocab_file));
  MEG_ASSIGN_OR_RETURN(const Vocabulary vocabulary, Vocabulary::parse(file.text(), vocab_file));
  return static_cast<int64_t>(vocabulary.entries().size());
}

}  // namespace meg::tokenizer
