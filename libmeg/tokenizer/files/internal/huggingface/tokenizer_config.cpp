#include "libmeg/tokenizer/files/internal/huggingface/tokenizer_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/files/internal/huggingface/tokenizer_class.h"
#include "libmeg/tokenizer/json/internal/json_file.h"

namespace meg::tokenizer {
namespace {

constexpr std::array<std::string_view, 7> kNamed = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

/// A token that is given as its text or as an object.
Result<AddedToken> read_token(const JsonPart& part) {
  AddedToken token;
  token.special = true;
  if (part.is_text()) {
    MEG_ASSIGN_OR_RETURN(const std::string_view text, part.text());
    token.content = text;
  } else {
    MEG_ASSIGN_OR_RETURN(token.content, part.text("content", ""));
    MEG_ASSIGN_OR_RETURN(token.single_word, part.boolean("single_word", false));
    MEG_ASSIGN_OR_RETURN(token.lstrip, part.boolean("lstrip", false));
    MEG_ASSIGN_OR_RETURN(token.rstrip, part.boolean("rstrip", false));
    MEG_ASSIGN_OR_RETURN(token.special, part.boolean("special", true));
    MEG_ASSIGN_OR_RETURN(token.normalized, part.boolean("normalized", !token.special));
  }
  if (token.content.empty()) return part.corrupt("a token of at least one character");
  return token;
}

Status read_added_tokens(const JsonPart& part, TokenizerConfig& config) {
  MEG_ASSIGN_OR_RETURN(const auto members, part.members());
  for (const auto& [key, value] : members) {
    MEG_ASSIGN_OR_RETURN(AddedToken token, read_token(value));
    MEG_ASSIGN_OR_RETURN(token.special, value.boolean("special", false));
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (error != std::errc() || end != key.data() + key.size() || token.id < 0) {
      return make_error(StatusCode::kCorruption, "{}: expected ids as keys, found {}", part.place(),
                        text::printable(key));
    }
    config.added_tokens.push_back(std::move(token));
  }
  std::sort(config.added_tokens.begin(), config.added_tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return {};
}

/// Where the name stands among kNamed; the names of a model's own tokens are after these.
size_t rank_of(std::string_view name) {
  return static_cast<size_t>(std::find(kNamed.begin(), kNamed.end(), name) - kNamed.begin());
}

/// The list that a file names first counts, also where it is null or empty; the newer name of two.
Status read_extra_tokens(const JsonPart& file, TokenizerConfig& config) {
  constexpr std::array<std::string_view, 2> kLists = {"extra_special_tokens",
                                                      "additional_special_tokens"};
  if (config.lists_extra_tokens) return {};
  for (const std::string_view name : kLists) {
    const std::optional<JsonPart> part = file.find(name);
    if (!part || part->is_object() || !config.extra_tokens.empty()) continue;
    MEG_ASSIGN_OR_RETURN(const std::vector<JsonPart> items, part->items());
    for (const JsonPart& item : items) {
      MEG_ASSIGN_OR_RETURN(AddedToken token, read_token(item));
      config.extra_tokens.push_back(std::move(token));
    }
  }
  MEG_ASSIGN_OR_RETURN(const auto members, file.members());
  config.lists_extra_tokens = std::any_of(members.begin(), members.end(), [&](const auto& member) {
    const auto& [name, value] = member;
    return std::find(kLists.begin(), kLists.end(), name) != kLists.end() && !value.is_object();
  });
  return {};
}

Status read_named_tokens(const JsonPart& file, TokenizerConfig& config) {
  for (const std::string_view name : kNamed) {
    const std::optional<JsonPart> part = file.find(name);
    if (!part) continue;
    MEG_ASSIGN_OR_RETURN(AddedToken token, read_token(*part));
    config.name_token(name, std::move(token));
  }
  return read_extra_tokens(file, config);
}

/// Tokens of the model's own names, such as image_token.
Status read_own_tokens(const JsonPart& file, TokenizerConfig& config) {
  MEG_ASSIGN_OR_RETURN(const auto members, file.members());
  for (const auto& [name, value] : members) {
    if (name.ends_with("_token") && value.json() == "null") config.null_tokens.push_back(name);
    if (!name.ends_with("_token") || !value.is_text() || rank_of(name) < kNamed.size()) continue;
    MEG_ASSIGN_OR_RETURN(AddedToken token, read_token(value));
    config.name_token(name, std::move(token));
  }
  const std::optional<JsonPart> extra = file.find("extra_special_tokens");
  if (!extra || !extra->is_object()) return {};
  MEG_ASSIGN_OR_RETURN(const auto own, extra->members());
  for (const auto& [name, value] : own) {
    MEG_ASSIGN_OR_RETURN(AddedToken token, read_token(value));
    config.name_token(name, std::move(token));
  }
  return {};
}

/// A class that comes as code beside the files may do anything with a text.
Status refuse_own_code(const JsonPart& file) {
  const std::optional<JsonPart> classes = file.find("auto_map");
  if (!classes || (classes->is_object() && !classes->find("AutoTokenizer"))) return {};
  return classes->unsupported("a tokenizer defined by Python code");
}

/// Whether a version, such as "4.57.0" or "5.0.0.dev0", is older than 5.0.0.
Result<bool> precedes_transformers_5(const JsonPart& part) {
  MEG_ASSIGN_OR_RETURN(const std::string_view version, part.text());
  if (version.empty()) return true;
  int major = 0;
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), major);
  if (error != std::errc()) return part.corrupt("a version");
  // Development versions and release candidates of 5.0.0 itself come before it.
  std::string_view rest(end, static_cast<size_t>(version.data() + version.size() - end));
  rest.remove_prefix(std::min(rest.find_first_not_of(".0-"), rest.size()));
  const bool is_preliminary = rest.starts_with("rc") || rest.starts_with("dev") ||
                              rest.starts_with('a') || rest.starts_with('b');
  return major < 5 || (major == 5 && is_preliminary);
}

/// Whether a config.json is one whose tokenizer transformers takes for Mistral's old one.
Result<bool> describes_old_mistral(const JsonPart& file) {
  constexpr std::array<std::string_view, 5> kTypes = {"mistral", "mistral3", "voxtral", "ministral",
                                                      "pixtral"};
  if (const auto version = file.find("transformers_version")) {
    MEG_ASSIGN_OR_RETURN(const bool is_old, precedes_transformers_5(*version));
    if (!is_old) return false;
  }
  const std::optional<JsonPart> type = file.find("model_type");
  if (!type) return true;
  MEG_ASSIGN_OR_RETURN(const std::string_view name, type->text());
  return std::find(kTypes.begin(), kTypes.end(), name) != kTypes.end();
}

Status read_config(const JsonPart& file, TokenizerConfig& config) {
  MEG_RETURN_IF_ERROR(refuse_own_code(file));
  MEG_ASSIGN_OR_RETURN(config.tokenizer_class, file.text("tokenizer_class", ""));
  MEG_RETURN_IF_ERROR(read_named_tokens(file, config));
  MEG_RETURN_IF_ERROR(read_own_tokens(file, config));
  if (const auto part = file.find("added_tokens_decoder")) {
    config.lists_added_tokens = true;
    MEG_RETURN_IF_ERROR(read_added_tokens(*part, config));
  }
  for (const auto& [name, value] : {std::pair{"add_bos_token", &config.add_bos_token},
                                    {"add_eos_token", &config.add_eos_token}}) {
    if (const auto part = file.find(name)) {
      MEG_ASSIGN_OR_RETURN(*value, part->boolean());
    }
  }
  MEG_ASSIGN_OR_RETURN(config.cleans_up_spaces,
                       file.boolean("clean_up_tokenization_spaces", false));
  MEG_ASSIGN_OR_RETURN(
      config.cleans_up_bpe_spaces,
      file.boolean("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
                   false));
  MEG_ASSIGN_OR_RETURN(config.fixes_mistral_pattern, file.boolean("fix_mistral_regex", false));
  MEG_ASSIGN_OR_RETURN(config.splits_special_tokens, file.boolean("split_special_tokens", false));
  return Status();
}

}  // namespace

void TokenizerConfig::name_token(std::string_view name, AddedToken token) {
  std::erase_if(named_tokens, [name](const auto& known) { return known.first == name; });
  const auto place =
      std::find_if(named_tokens.begin(), named_tokens.end(),
                   [name](const auto& known) { return rank_of(known.first) > rank_of(name); });
  named_tokens.emplace(place, std::string(name), std::move(token));
}

void TokenizerConfig::name_default_token(std::string_view name, std::string_view text) {
  const bool is_null = std::find(null_tokens.begin(), null_tokens.end(), name) != null_tokens.end();
  if (text.empty() || is_null || named(name) != nullptr) return;
  AddedToken token;
  token.content = text;
  token.special = true;
  name_token(name, std::move(token));
}

const AddedToken* TokenizerConfig::named(std::string_view name) const {
  for (const auto& [known, token] : named_tokens) {
    if (known == name) return &token;
  }
  return nullptr;
}

Result<TokenizerConfig> read_tokenizer_config(const std::string& folder) {
  TokenizerConfig config;
  const std::filesystem::path path(folder);
  for (const char* const name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::string file_path = (path / name).string();
    // What lists the added tokens has also the last word on which of them is which.
    if (config.lists_added_tokens || !std::filesystem::exists(file_path)) continue;
    MEG_ASSIGN_OR_RETURN(const JsonFile file, JsonFile::open(file_path));
    const bool is_config = std::string_view(name) == "tokenizer_config.json";
    MEG_RETURN_IF_ERROR(is_config ? read_config(file.root(), config)
                                  : read_named_tokens(file.root(), config));
  }
  const std::string model_path = (path / "config.json").string();
  if (!std::filesystem::exists(model_path)) {
    config.fixes_mistral_pattern = false;
    return config;
  }
  MEG_ASSIGN_OR_RETURN(const JsonFile model, JsonFile::open(model_path));
  if (config.tokenizer_class.empty()) {
    MEG_ASSIGN_OR_RETURN(config.tokenizer_class, model.root().text("tokenizer_class", ""));
  }
  MEG_ASSIGN_OR_RETURN(const std::string model_type, model.root().text("model_type", ""));
  config.tokenizer_class = choose_tokenizer_class(config.tokenizer_class, model_type);
  if (config.fixes_mistral_pattern) {
    MEG_ASSIGN_OR_RETURN(config.fixes_mistral_pattern, describes_old_mistral(model.root()));
  }
  return config;
}

}  // namespace meg::tokenizer
