#include "libmeg/tokenizer/files/internal/bert/bert_word_piece_tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "libmeg/text/whitespace.h"
#include "libmeg/tokenizer/files/internal/bert/hugging_face_bert.h"
#include "libmeg/tokenizer/json/internal/text_file.h"
#include "libmeg/tokenizer/models/internal/wordpiece/word_piece_encoder.h"
#include "libmeg/tokenizer/steps/internal/replace_text.h"

namespace meg::tokenizer::wordpiece {

namespace {

constexpr std::string_view kContinuation = "##";
/// A longer word is [UNK] as a whole, in Megatron's class; Hugging Face's own limit is another.
constexpr size_t kMaxCharacters = 200;

/// Works like Megatron's convert_tokens_to_string, in this order.
void close_gaps(std::string& text, bool more_follows) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kGaps = {{
      {" .", "."},
      {" ?", "?"},
      {" !", "!"},
      {" ,", ","},
      {" ' ", "'"},
      {" n't", "n't"},
      {" 'm", "'m"},
      {" 's", "'s"},
      {" 've", "'ve"},
      {" 're", "'re"},
  }};
  for (const auto& [from, to] : kGaps) replace_all(text, from, to, more_follows);
}

}  // namespace

BertWordPieceTokenizer::BertWordPieceTokenizer(VocabularyLines vocabulary, const Options& options)
    : options_(options),
      vocabulary_(std::move(vocabulary)),
      model_(vocabulary_.entries(),
             {.unknown_id = id_of("[UNK]"), .max_characters = kMaxCharacters}) {}

Result<std::unique_ptr<BertWordPieceTokenizer>> BertWordPieceTokenizer::parse(
    std::string_view text, const std::string& name, const Options& options) {
  MEG_ASSIGN_OR_RETURN(VocabularyLines vocabulary, VocabularyLines::parse(text, name));
  MEG_RETURN_IF_ERROR(vocabulary.check_special_tokens(name));
  // Add them after the vocabulary, in Megatron's order: they get the ids that it gives them.
  vocabulary.add("[BOS]");
  vocabulary.add("[EOS]");
  for (int64_t i = 0; i < options.extra_ids; ++i) vocabulary.add(fmt::format("<extra_id_{}>", i));
  return std::unique_ptr<BertWordPieceTokenizer>(
      new BertWordPieceTokenizer(std::move(vocabulary), options));
}

std::optional<std::string_view> BertWordPieceTokenizer::token_bytes(int32_t id) const {
  if (id < 0 || id > max_id()) return std::nullopt;
  std::string_view token = vocabulary_.tokens[static_cast<size_t>(id)];
  if (token.starts_with(kContinuation)) token.remove_prefix(kContinuation.size());
  return token;
}

std::unique_ptr<TokenEncoder> BertWordPieceTokenizer::new_encoder(DType dtype) const {
  const bool fast = options_.implementation == Implementation::kFast;
  return (fast ? new_fast_encoder : new_reference_encoder)(model_, options_.lower_case, dtype);
}

Result<std::string> BertWordPieceTokenizer::decode_text(std::span<const int32_t> ids,
                                                        bool more_follow) const {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    MEG_RETURN_IF_ERROR(bytes_of_token(ids[i], i).status());
    if (i > 0) text += ' ';
    text += vocabulary_.tokens[static_cast<size_t>(ids[i])];
  }
  replace_all(text, " ##", "", more_follow);
  text = text::trimmed(text);
  close_gaps(text, more_follow);
  return text;
}

std::optional<std::string> BertWordPieceTokenizer::rules() const {
  return fmt::format("bert {}\n{}", options_.lower_case, fmt::join(vocabulary_.tokens, "\n"));
}

Result<std::unique_ptr<Tokenizer>> open_bert_word_piece(const TokenizerOptions& options) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, open_tokenizer_file(options.vocab_file));
  const bool lower_case = options.tokenizer_type == "BertWordPieceLowerCase";
  const std::optional<HuggingFaceTokenizer::Options> hugging_face = core_options(options);
  if (hugging_face) {
    MEG_ASSIGN_OR_RETURN(
        std::unique_ptr<Tokenizer> tokenizer,
        parse_hugging_face_bert(file.text(), options.vocab_file, !lower_case, *hugging_face));
    return tokenizer;
  }
  BertWordPieceTokenizer::Options kind;
  kind.lower_case = lower_case;
  kind.extra_ids = options.vocab_extra_ids;
  MEG_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                       BertWordPieceTokenizer::parse(file.text(), options.vocab_file, kind));
  return tokenizer;
}

}  // namespace meg::tokenizer::wordpiece
