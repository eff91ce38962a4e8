#include "libmeg/tokenizer/files/internal/bert/hugging_face_bert.h"

#include <fmt/format.h>

#include <utility>

#include "libmeg/text/json/json_text.h"
#include "libmeg/tokenizer/files/internal/bert/vocabulary_lines.h"

namespace meg::tokenizer::wordpiece {
namespace {

constexpr int kExtraIds = 100;

AddedToken special(std::string content) {
  AddedToken token;
  token.content = std::move(content);
  token.special = true;
  return token;
}

/// The tokens that transformers names, and those that Megatron has it add: [SEP] and [CLS] end and
/// begin a text.
TokenizerConfig config_of(bool case_kept) {
  TokenizerConfig config;
  constexpr std::pair<const char*, const char*> kNamed[] = {
      {"bos_token", "[CLS]"},  {"eos_token", "[SEP]"}, {"unk_token", "[UNK]"},
      {"sep_token", "[SEP]"},  {"pad_token", "[PAD]"}, {"cls_token", "[CLS]"},
      {"mask_token", "[MASK]"}};
  for (const auto& [name, content] : kNamed) {
    config.named_tokens.emplace_back(name, special(content));
  }
  for (int i = 0; case_kept && i < kExtraIds; ++i) {
    config.extra_tokens.push_back(special(fmt::format("<extra_id_{}>", i)));
  }
  return config;
}

void put(text::JsonText& json, std::string_view key, std::string_view value) {
  json.key(key);
  json.string(value);
}

void put_flag(text::JsonText& json, std::string_view key, bool value) {
  json.key(key);
  json.literal(value ? "true" : "false");
}

void begin_part(text::JsonText& json, std::string_view part, std::string_view type) {
  json.key(part);
  json.begin_object();
  put(json, "type", type);
}

/// A token and its id, for BertProcessing.
void put_token(text::JsonText& json, std::string_view key, const std::string& token,
               const VocabularyLines& vocabulary) {
  json.key(key);
  json.begin_array();
  json.string(token);
  json.number(int64_t{vocabulary.ids.at(token)});
  json.end_array();
}

/// The tokenizer.json that transformers makes of a vocabulary.
std::string tokenizer_json(const VocabularyLines& vocabulary, bool case_kept) {
  text::JsonText json;
  json.begin_object();
  begin_part(json, "normalizer", "BertNormalizer");
  put_flag(json, "lowercase", !case_kept);
  json.end_object();
  begin_part(json, "pre_tokenizer", "BertPreTokenizer");
  json.end_object();
  begin_part(json, "post_processor", "BertProcessing");
  put_token(json, "sep", "[SEP]", vocabulary);
  put_token(json, "cls", "[CLS]", vocabulary);
  json.end_object();
  begin_part(json, "decoder", "WordPiece");
  json.end_object();
  begin_part(json, "model", "WordPiece");
  json.key("vocab");
  json.begin_object();
  for (const auto& [token, id] : vocabulary.entries()) {
    json.key(token);
    json.number(int64_t{id});
  }
  json.end_object();
  json.end_object();
  json.end_object();
  return json.text();
}

}  // namespace

Result<std::unique_ptr<HuggingFaceTokenizer>> parse_hugging_face_bert(
    std::string_view text, const std::string& name, bool case_kept,
    const HuggingFaceTokenizer::Options& options) {
  MEG_ASSIGN_OR_RETURN(const VocabularyLines vocabulary, VocabularyLines::parse(text, name));
  MEG_RETURN_IF_ERROR(vocabulary.check_special_tokens(name));
  if (vocabulary.first_stripped_line) {
    return make_error(StatusCode::kUnsupported,
                      "{}: line {}: whitespace around a token is not supported", name,
                      *vocabulary.first_stripped_line);
  }
  // Go by way of its tokenizer.json, so that one implementation holds all of Hugging Face's rules.
  return HuggingFaceTokenizer::parse(tokenizer_json(vocabulary, case_kept), name,
                                     config_of(case_kept), options);
}

}  // namespace meg::tokenizer::wordpiece
