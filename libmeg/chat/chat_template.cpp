#include "libmeg/chat/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "libmeg/chat/internal/interpreter.h"
#include "libmeg/chat/internal/template_syntax.h"
#include "libmeg/chat/internal/value.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/text/python_text.h"

namespace meg::chat {
namespace {

namespace fs = std::filesystem;

/// Longer templates are refused: the longest of public models have 20 KB.
constexpr size_t kMaxSource = size_t{1} << 20;

using Json = nlohmann::ordered_json;
using Variables = std::vector<std::pair<std::string, Value>>;

Status no_template(const std::string& path, std::string_view expected) {
  return make_error(StatusCode::kCorruption, "{}: expected {}", path, expected);
}

/// The source in tokenizer_config.json; empty where there is none.
Result<std::string> configured_source(const Json& config, const std::string& path) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::string();
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return no_template(path, "chat_template to be a string or list");
  for (const Json& one : *found) {
    if (!one.is_object() || !one.contains("name") || !one.contains("template") ||
        !one["template"].is_string()) {
      return no_template(path, "chat templates with name and template");
    }
    if (one["name"] == "default") return one["template"].get<std::string>();
  }
  return no_template(path, "a chat template named default");
}

/// bos_token and the like: a string, or an object with its content.
Variables special_tokens(const Json& config) {
  Variables tokens;
  for (const char* const name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                                 "cls_token", "mask_token"}) {
    const auto found = config.find(name);
    if (found == config.end()) continue;
    const Json& token =
        found->is_object() && found->contains("content") ? (*found)["content"] : *found;
    if (token.is_string()) tokens.emplace_back(name, Value::text(token.get<std::string>()));
  }
  return tokens;
}

/// Whether the source has {% generation %}. Mirrors transformers'
/// tokenization_utils_base.py: apply_chat_template.
bool has_generation_block(std::string_view source) {
  for (size_t at = source.find("{%"); at != source.npos; at = source.find("{%", at + 2)) {
    std::string_view rest = source.substr(at + 2);
    if (rest.starts_with('-')) rest.remove_prefix(1);
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
    if (rest.starts_with("generation")) return true;
  }
  return false;
}

Result<std::string> content_of(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(path));
  return std::string(file.text());
}

std::string config_path(const std::string& folder) {
  return (fs::path(folder) / "tokenizer_config.json").string();
}

/// An empty object where there is no such file.
Result<Json> config_of(const std::string& path) {
  std::error_code absent;
  if (!fs::exists(path, absent)) return Json::object();
  MEG_ASSIGN_OR_RETURN(const std::string text, content_of(path));
  Json config = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return no_template(path, "a JSON object");
  return config;
}

}  // namespace

struct ChatTemplate::Parsed {
  std::vector<NodePtr> statements;
  Variables special_tokens;
  bool marks_generation = false;

  static Result<std::shared_ptr<Parsed>> parse(std::string_view source) {
    if (source.size() > kMaxSource) {
      return make_error(StatusCode::kInvalidArgument, "expected at most {} bytes, found {}",
                        kMaxSource, source.size());
    }
    auto parsed = std::make_shared<Parsed>();
    MEG_ASSIGN_OR_RETURN(parsed->statements, parse_template(source));
    parsed->marks_generation = has_generation_block(source);
    return parsed;
  }
};

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const std::string& folder) {
  MEG_ASSIGN_OR_RETURN(std::shared_ptr<Parsed> parsed, Parsed::parse(source));
  if (!folder.empty()) {
    MEG_ASSIGN_OR_RETURN(const Json config, config_of(config_path(folder)));
    parsed->special_tokens = special_tokens(config);
  }
  return ChatTemplate(std::move(parsed));
}

Result<std::optional<ChatTemplate>> ChatTemplate::open(const std::string& folder) {
  std::error_code absent;
  MEG_ASSIGN_OR_RETURN(const Json config, config_of(config_path(folder)));
  std::string path = (fs::path(folder) / "chat_template.jinja").string();
  std::string source;
  if (fs::exists(path, absent)) {
    MEG_ASSIGN_OR_RETURN(source, content_of(path));
  } else {
    path = config_path(folder);
    MEG_ASSIGN_OR_RETURN(source, configured_source(config, path));
    if (source.empty()) return std::optional<ChatTemplate>();
  }
  Result<std::shared_ptr<Parsed>> parsed = Parsed::parse(source);
  if (!parsed.has_value()) return parsed.error().with_prefix(path + ": chat_template");
  (*parsed)->special_tokens = special_tokens(config);
  return std::optional<ChatTemplate>(ChatTemplate(*std::move(parsed)));
}

bool ChatTemplate::marks_generation() const { return parsed_->marks_generation; }

Result<RenderedChat> ChatTemplate::render(const nlohmann::ordered_json& variables) const {
  Variables names;
  if (!variables.is_object()) {
    return Status(StatusCode::kInvalidArgument,
                  "expected the variables of a template as an object");
  }
  for (const auto& [name, json] : variables.items()) {
    MEG_ASSIGN_OR_RETURN(Value value, Value::from_json(json));
    names.emplace_back(name, std::move(value));
  }
  for (const char* const name : {"tools", "documents"}) {
    if (!variables.contains(name)) names.emplace_back(name, Value());
  }
  for (const auto& [name, value] : parsed_->special_tokens) {
    if (!variables.contains(name)) names.emplace_back(name, value);
  }
  Interpreter interpreter(parsed_->statements);
  MEG_ASSIGN_OR_RETURN(std::string text, interpreter.render(std::move(names)));
  return RenderedChat{std::move(text), interpreter.generated()};
}

Result<std::string> ChatTemplate::render_to_continue(nlohmann::ordered_json variables) const {
  // transformers' own mark: a template can tell it from others, by its length or case.
  constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG ";
  const std::string_view bare_mark = kMark.substr(0, kMark.size() - 1);
  const auto fail = [](std::string_view reason) {
    return make_error(StatusCode::kInvalidArgument, "the last message cannot be continued: {}",
                      reason);
  };
  Json* content = nullptr;
  if (variables.is_object() && variables.contains("messages")) {
    Json& messages = variables["messages"];
    if (messages.is_array() && !messages.empty() && messages.back().contains("content")) {
      content = &messages.back()["content"];
    }
  }
  if (content == nullptr || !content->is_string()) return fail("its content is not a string");
  const auto last = content->get<std::string>();
  *content = last + std::string(kMark);
  MEG_ASSIGN_OR_RETURN(const RenderedChat rendered, render(variables));
  const std::string_view text = rendered.text;
  const size_t end = text.rfind(bare_mark);
  if (end == std::string_view::npos ||
      text.find(text::python_strip(last)) == std::string_view::npos) {
    return fail("the template does not write its content");
  }
  const std::string_view kept = text.substr(0, end);
  if (text.substr(end).starts_with(kMark)) return std::string(kept);
  // A template that strips messages would have stripped this one before the mark.
  const std::string_view stripped = text::python_strip(kept);
  return std::string(kept.data(),
                     stripped.empty() ? kept.data() : stripped.data() + stripped.size());
}

}  // namespace meg::chat
