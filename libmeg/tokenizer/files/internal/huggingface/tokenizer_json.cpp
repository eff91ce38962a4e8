#include "libmeg/tokenizer/files/internal/huggingface/tokenizer_json.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_set>
#include <utility>

#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/files/internal/huggingface/model_reader.h"
#include "libmeg/tokenizer/files/internal/huggingface/tokenizer_class.h"
#include "libmeg/tokenizer/json/internal/json_file.h"

namespace meg::tokenizer {
namespace {

Result<AddedToken> read_added_token(const JsonPart& part) {
  MEG_RETURN_IF_ERROR(part.allow_only(
      {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  AddedToken token;
  MEG_ASSIGN_OR_RETURN(const JsonPart id, part.member("id"));
  MEG_ASSIGN_OR_RETURN(const int64_t number, id.integer());
  if (number < 0 || number > std::numeric_limits<int32_t>::max()) return id.corrupt("an id");
  token.id = static_cast<int32_t>(number);
  MEG_ASSIGN_OR_RETURN(const JsonPart content, part.member("content"));
  MEG_ASSIGN_OR_RETURN(const std::string_view text, content.text());
  token.content = text;
  if (text.empty()) return content.corrupt("at least one character");
  MEG_ASSIGN_OR_RETURN(token.special, part.boolean("special", false));
  MEG_ASSIGN_OR_RETURN(token.normalized, part.boolean("normalized", !token.special));
  MEG_ASSIGN_OR_RETURN(token.single_word, part.boolean("single_word", false));
  MEG_ASSIGN_OR_RETURN(token.lstrip, part.boolean("lstrip", false));
  MEG_ASSIGN_OR_RETURN(token.rstrip, part.boolean("rstrip", false));
  return token;
}

/// Whether two tokens of one content are alike.
bool same_token(const AddedToken& a, const AddedToken& b) {
  return a.id == b.id && a.special == b.special && a.normalized == b.normalized &&
         a.single_word == b.single_word && a.lstrip == b.lstrip && a.rstrip == b.rstrip;
}

/// Gives added tokens their ids, as tokenizers does: that of the vocabulary, else the next one, as
/// if the vocabulary's ids were 0, 1, ...
class AddedVocabulary {
 public:
  AddedVocabulary(TokenizerJson& file, std::string name) : file_(file), name_(std::move(name)) {
    used_.reserve(file.vocabulary.entries().size());
    for (const Vocabulary::Entry& entry : file.vocabulary.entries()) used_.insert(entry.id);
    next_id_ = static_cast<int32_t>(file.vocabulary.entries().size());
  }

  /// token.id is what the file says. from: where the token stands, for messages; empty: in the
  /// list.
  Status add(const AddedToken& token, std::string_view from = {}) {
    if (const AddedToken* const earlier = find(token.content)) {
      if (same_token(token, *earlier)) return {};
      return make_error(StatusCode::kCorruption, "{}: expected added token {} once, found it again",
                        name_, text::printable(token.content));
    }
    const int32_t entry = file_.vocabulary.find(token.content);
    // One that is in the vocabulary has its id from there.
    const int32_t expected =
        entry >= 0 ? file_.vocabulary.entries()[static_cast<size_t>(entry)].id : token.id;
    const bool taken = entry < 0 && used_.contains(token.id);
    if (taken || expected != token.id) {
      return make_error(StatusCode::kCorruption, "{}: added token {}{}: expected {}, found id {}",
                        name_, text::printable(token.content), from,
                        taken ? "an id that no other token has"
                              : fmt::format("id {} of the vocabulary", expected),
                        token.id);
    }
    if (entry < 0 && token.id != next_id_) {
      return make_error(
          StatusCode::kUnsupported,
          "{}: added token {}{}: expected id {}, which tokenizers gives it, found id {}", name_,
          text::printable(token.content), from, next_id_, token.id);
    }
    used_.insert(token.id);
    if (entry < 0) ++next_id_;
    file_.added_tokens.push_back(token);
    return {};
  }

  /// A token of the files beside. Where the tokenizer's list has it, that counts; of several names
  /// the last one.
  Status add_named(AddedToken token) {
    if (const AddedToken* const known = find(token.content)) {
      if (named_.contains(token.content)) {
        token.id = known->id;
        replace(*known, token);
      }
      return {};
    }
    named_.insert(token.content);
    const int32_t entry = file_.vocabulary.find(token.content);
    token.id = entry >= 0 ? file_.vocabulary.entries()[static_cast<size_t>(entry)].id : next_id_;
    return add(token);
  }

  /// known: of find().
  void replace(const AddedToken& known, const AddedToken& token) {
    file_.added_tokens[static_cast<size_t>(&known - file_.added_tokens.data())] = token;
  }

  const AddedToken* find(std::string_view content) const {
    for (const AddedToken& token : file_.added_tokens) {
      if (token.content == content) return &token;
    }
    return nullptr;
  }

 private:
  TokenizerJson& file_;
  const std::string name_;
  std::unordered_set<int32_t> used_;
  std::set<std::string> named_;  // that add_named() added
  int32_t next_id_;              // also where an id of the vocabulary is larger
};

/// Those that are looked for in normalized text are normalized themselves, as in tokenizers.
Status normalize_added_tokens(const std::string& name, TokenizerJson& file) {
  std::set<std::string> found;
  for (AddedToken& token : file.added_tokens) {
    token.matched = token.content;
    if (!token.normalized || file.normalizer == nullptr) continue;
    MEG_RETURN_IF_ERROR(file.normalizer->apply(token.matched));
    if (!token.matched.empty() && found.insert(token.matched).second) continue;
    return make_error(StatusCode::kUnsupported,
                      "{}: added token {}: the normalizer makes {} of it, which is not supported",
                      name, text::printable(token.content),
                      token.matched.empty() ? "nothing" : "the same text as of another");
  }
  return {};
}

/// Where only one of eos_token and sep_token, or of bos_token and cls_token, is named, its token
/// gets the other name as well and loses its attributes.
void add_stand_ins(TokenizerConfig& config, TokenizerJson& file) {
  for (const auto& [name, other] :
       {std::pair{"eos_token", "sep_token"}, std::pair{"bos_token", "cls_token"}}) {
    const AddedToken* const token = config.named(name);
    const AddedToken* const stand_in = config.named(other);
    if ((token == nullptr) == (stand_in == nullptr)) continue;
    AddedToken plain;
    plain.content = (token != nullptr ? token : stand_in)->content;
    plain.special = true;
    for (AddedToken& added : file.added_tokens) {
      if (added.content != plain.content) continue;
      plain.id = added.id;
      added = plain;
    }
    config.name_token(token != nullptr ? other : name, std::move(plain));
  }
}

/// config gains the names of tokens that only the tokenizer.json or core names.
Status read_added_tokens(const JsonPart& root, bool adds_stand_ins, TokenizerConfig& config,
                         TokenizerJson& file) {
  if (const auto padding = root.find("padding")) {
    MEG_ASSIGN_OR_RETURN(const std::string pad, padding->text("pad_token", ""));
    config.name_default_token("pad_token", pad);
  }
  AddedVocabulary added(file, root.place());
  if (const auto list = root.find("added_tokens")) {
    MEG_ASSIGN_OR_RETURN(const std::vector<JsonPart> items, list->items());
    for (const JsonPart& item : items) {
      MEG_ASSIGN_OR_RETURN(const AddedToken token, read_added_token(item));
      MEG_RETURN_IF_ERROR(added.add(token));
    }
  }
  for (const AddedToken& token : config.added_tokens) {
    const AddedToken* const known = added.find(token.content);
    if (known != nullptr && known->id == token.id) {
      added.replace(*known, token);
    } else if (known == nullptr) {
      MEG_RETURN_IF_ERROR(added.add(token, " of tokenizer_config.json"));
    } else {
      return make_error(StatusCode::kUnsupported,
                        "{}: added token {} of tokenizer_config.json: expected id {}, found id {}",
                        root.place(), text::printable(token.content), known->id, token.id);
    }
  }
  // Tokens that tokenizer_config.json names and no file adds: transformers adds them after all
  // others.
  for (const auto& [name, token] : config.named_tokens) MEG_RETURN_IF_ERROR(added.add_named(token));
  for (const AddedToken& token : config.extra_tokens) MEG_RETURN_IF_ERROR(added.add_named(token));
  if (adds_stand_ins) add_stand_ins(config, file);
  std::sort(file.added_tokens.begin(), file.added_tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  MEG_RETURN_IF_ERROR(normalize_added_tokens(root.place(), file));
  file.vocab_size = static_cast<int64_t>(file.vocabulary.entries().size());
  for (const AddedToken& token : file.added_tokens) {
    if (file.vocabulary.find(token.content) < 0) ++file.vocab_size;
  }
  return {};
}

Result<std::vector<int32_t>> read_ids(const JsonPart& special, const TokenizerJson& file) {
  MEG_ASSIGN_OR_RETURN(const JsonPart list, special.member("ids"));
  MEG_ASSIGN_OR_RETURN(const std::vector<JsonPart> items, list.items());
  std::vector<int32_t> ids;
  for (const JsonPart& item : items) {
    MEG_ASSIGN_OR_RETURN(const int64_t id, item.integer());
    const auto has_id = [id](const auto& token) { return token.id == id; };
    const auto& entries = file.vocabulary.entries();
    if (std::none_of(entries.begin(), entries.end(), has_id) &&
        std::none_of(file.added_tokens.begin(), file.added_tokens.end(), has_id)) {
      return item.corrupt("the id of a token");
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

/// `[{"SpecialToken": ...}, {"Sequence": {"id": "A"}}, ...]`
Status read_template(const JsonPart& part, TokenizerJson& file) {
  MEG_ASSIGN_OR_RETURN(const JsonPart single, part.member("single"));
  MEG_ASSIGN_OR_RETURN(const std::vector<JsonPart> pieces, single.items());
  std::vector<int32_t> before;
  std::vector<int32_t> behind;
  bool found_text = false;
  for (const JsonPart& piece : pieces) {
    if (const auto sequence = piece.find("Sequence")) {
      MEG_ASSIGN_OR_RETURN(const std::string id, sequence->text("id", ""));
      if (id != "A" || found_text) return sequence->unsupported("a second sequence");
      found_text = true;
      continue;
    }
    MEG_ASSIGN_OR_RETURN(const JsonPart named, piece.member("SpecialToken"));
    MEG_ASSIGN_OR_RETURN(const std::string id, named.text("id", ""));
    MEG_ASSIGN_OR_RETURN(const JsonPart tokens, part.member("special_tokens"));
    MEG_ASSIGN_OR_RETURN(const JsonPart special, tokens.member(id));
    MEG_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, read_ids(special, file));
    std::vector<int32_t>& side = found_text ? behind : before;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!found_text) return single.unsupported("a template without the text");
  // Several processors put their tokens around what is there.
  file.prefix.insert(file.prefix.begin(), before.begin(), before.end());
  file.suffix.insert(file.suffix.end(), behind.begin(), behind.end());
  return {};
}

Result<int32_t> read_id_of_pair(const JsonPart& part, const char* name) {
  MEG_ASSIGN_OR_RETURN(const JsonPart named, part.member(name));
  MEG_ASSIGN_OR_RETURN(const std::vector<JsonPart> pair, named.items());
  if (pair.size() != 2) return named.corrupt("a token and its id");
  MEG_ASSIGN_OR_RETURN(const int64_t id, pair[1].integer());
  return static_cast<int32_t>(id);
}

/// BertProcessing and RobertaProcessing: `"sep": ["</s>", 2], "cls": ["<s>", 0]`.
Status read_cls_and_sep(const JsonPart& part, TokenizerJson& file) {
  MEG_ASSIGN_OR_RETURN(const int32_t cls, read_id_of_pair(part, "cls"));
  MEG_ASSIGN_OR_RETURN(const int32_t sep, read_id_of_pair(part, "sep"));
  // Several processors put their tokens around what is there.
  file.prefix.insert(file.prefix.begin(), cls);
  file.suffix.push_back(sep);
  return {};
}

Status read_post_processor(const JsonPart& part, TokenizerJson& file) {
  MEG_ASSIGN_OR_RETURN(const std::string_view type, part.type());
  if (type == "ByteLevel") return {};  // of offsets alone
  if (type == "TemplateProcessing") return read_template(part, file);
  if (type == "BertProcessing" || type == "RobertaProcessing") return read_cls_and_sep(part, file);
  if (type != "Sequence") return part.unsupported(text::printable_name(type));
  MEG_ASSIGN_OR_RETURN(const JsonPart list, part.member("processors"));
  MEG_ASSIGN_OR_RETURN(const std::vector<JsonPart> items, list.items());
  bool splits = false;  // A template makes texts of their own of its tokens.
  for (const JsonPart& item : items) {
    MEG_ASSIGN_OR_RETURN(const std::string_view kind, item.type());
    if (splits && kind != "ByteLevel") {
      return item.unsupported(fmt::format("{} after a template", text::printable_name(kind)));
    }
    MEG_RETURN_IF_ERROR(read_post_processor(item, file));
    splits |= kind == "TemplateProcessing" && !(file.prefix.empty() && file.suffix.empty());
  }
  return {};
}

}  // namespace

std::optional<int32_t> TokenizerJson::token_id(std::string_view token) const {
  for (const AddedToken& added : added_tokens) {
    if (added.content == token) return added.id;
  }
  const int32_t entry = vocabulary.find(token);
  if (entry < 0) return std::nullopt;
  return vocabulary.entries()[static_cast<size_t>(entry)].id;
}

Result<TokenizerJson> read_tokenizer_json(std::string_view json, const std::string& name,
                                          bool adds_stand_ins, TokenizerConfig& config) {
  MEG_ASSIGN_OR_RETURN(const JsonFile parsed, JsonFile::parse(json, name));
  const JsonPart root = parsed.root();
  MEG_RETURN_IF_ERROR(
      root.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer",
                       "pre_tokenizer", "post_processor", "decoder", "model"}));
  TokenizerJson file;
  if (const auto part = root.find("normalizer")) {
    MEG_ASSIGN_OR_RETURN(file.normalizer, read_normalizer(*part));
    MEG_ASSIGN_OR_RETURN(file.normalizer_type, part->type());
    file.normalizer_json = part->json();
  }
  if (const auto part = root.find("pre_tokenizer")) {
    MEG_ASSIGN_OR_RETURN(file.pre_tokenizer, read_pre_tokenizer(*part));
  }
  MEG_ASSIGN_OR_RETURN(const JsonPart model, root.member("model"));
  MEG_RETURN_IF_ERROR(read_model(model, file));
  name_default_tokens(file, config);
  MEG_RETURN_IF_ERROR(read_added_tokens(root, adds_stand_ins, config, file));
  file.splits_special_tokens = config.splits_special_tokens;
  if (const auto part = root.find("pre_tokenizer");
      part && config.fixes_mistral_pattern &&
      file.vocab_size > TokenizerConfig::kMistralVocabSize) {
    MEG_ASSIGN_OR_RETURN(file.pre_tokenizer, read_mistral_pre_tokenizer(*part));
  }
  if (const auto part = root.find("post_processor")) {
    MEG_RETURN_IF_ERROR(read_post_processor(*part, file));
  }
  MEG_ASSIGN_OR_RETURN(file.decoder, read_decoder(root.find("decoder")));
  return file;
}

}  // namespace meg::tokenizer
