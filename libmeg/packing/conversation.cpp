#include "libmeg/packing/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/text/printable.h"

namespace meg::packing {
namespace {

using Json = nlohmann::ordered_json;

/// Names of speakers, and the role that templates have for them. OpenAI's stand for themselves.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kRoles = {
    {{"system", "system"},
     {"developer", "developer"},
     {"user", "user"},
     {"assistant", "assistant"},
     {"tool", "tool"},
     {"function", "function"},
     {"ipython", "ipython"},
     // ShareGPT and its descendants.
     {"human", "user"},
     {"gpt", "assistant"},
     {"chatgpt", "assistant"},
     {"bard", "assistant"},
     {"bing", "assistant"},
     {"function_call", "assistant"},
     {"observation", "tool"}}};

template <class... Args>
Status bad(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kCorruption,
                "byte 1: " + fmt::format(format, std::forward<Args>(args)...));
}

/// ordered_json looks for every key that it reads among all others of its object, and copies nested
/// values by recursion.
constexpr int64_t kMostKeys = 1000;
constexpr size_t kMostNesting = 1000;

/// Stops where JSON has more keys in an object, or more nested values, than that.
class ShapeReader : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }

  bool boolean(bool) override { return true; }

  bool number_integer(number_integer_t) override { return true; }

  bool number_unsigned(number_unsigned_t) override { return true; }

  bool number_float(number_float_t, const string_t&) override { return true; }

  bool string(string_t&) override { return true; }

  bool binary(binary_t&) override { return true; }

  bool start_object(size_t) override { return start(); }

  bool key(string_t&) override {
    too_wide_ = ++keys_.back() > kMostKeys;
    return !too_wide_;
  }

  bool end_object() override { return end(); }

  bool start_array(size_t) override { return start(); }

  bool end_array() override { return end(); }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

  /// An error of the JSON itself is none of the shape's.
  Status status() const {
    if (too_wide_) return bad("expected at most {} keys in an object, found more", kMostKeys);
    if (too_deep_) return bad("expected at most {} nested values, found more", kMostNesting);
    return Status();
  }

 private:
  bool start() {
    keys_.push_back(0);
    too_deep_ = keys_.size() > kMostNesting;
    return !too_deep_;
  }

  bool end() {
    keys_.pop_back();
    return true;
  }

  std::vector<int64_t> keys_;  // of the objects and lists that are open
  bool too_wide_ = false;
  bool too_deep_ = false;
};

/// Reads JSON whose shape is bounded; a discarded value where it is none.
Result<Json> parse_bounded(std::string_view json) {
  const auto is_suspect = [](char c) { return c == ':' || c == '[' || c == '{'; };
  if (std::ranges::count_if(json, is_suspect) > kMostKeys) {
    ShapeReader shape;
    Json::sax_parse(json, &shape);
    MEG_RETURN_IF_ERROR(shape.status());
  }
  return Json::parse(json, nullptr, /*allow_exceptions=*/false);
}

Result<std::string_view> role_named(const Json& name, size_t message) {
  if (name.is_string()) {
    for (const auto& [speaker, role] : kRoles) {
      if (name.get_ref<const std::string&>() == speaker) return role;
    }
  }
  const std::string found =
      name.is_string() ? text::printable(name.get_ref<const std::string&>()) : name.type_name();
  return bad("message {}: expected a role such as system, user, assistant or tool, found {}",
             message, found);
}

class Reader {
 public:
  explicit Reader(Conversation& conversation)
      : out_(conversation), messages_(conversation.variables["messages"] = Json::array()) {}

  /// is_learned: whether answers among them count.
  Status add_list(Json& list, std::string_view key, bool is_learned) {
    if (!list.is_array()) {
      return bad("\"{}\": expected a list of messages, found {}", key, list.type_name());
    }
    for (Json& message : list) MEG_RETURN_IF_ERROR(add_message(message, is_learned));
    return Status();
  }

  void add_text(std::string_view role, Json content, bool is_learned) {
    add({{"role", role}, {"content", std::move(content)}}, is_learned);
  }

 private:
  Status add_message(Json& message, bool is_learned) {
    const size_t number = messages_.size();
    if (!message.is_object()) {
      return bad("message {}: expected an object, found {}", number, message.type_name());
    }
    const bool is_sharegpt = !message.contains("role") && message.contains("from");
    const auto name = message.find(is_sharegpt ? "from" : "role");
    if (name == message.end()) return bad("message {}: expected \"role\" or \"from\"", number);
    MEG_ASSIGN_OR_RETURN(const std::string_view role, role_named(*name, number));
    Json learned = std::move(message);
    if (is_sharegpt) {
      const auto value = learned.find("value");
      if (value == learned.end()) return bad("message {}: expected \"value\"", number);
      Json content = std::move(*value);
      learned.erase("from");
      learned.erase("value");
      learned["content"] = std::move(content);
    }
    learned["role"] = role;
    MEG_RETURN_IF_ERROR(check_content(learned, number));
    MEG_ASSIGN_OR_RETURN(const bool counts, has_weight(learned, number));
    add(std::move(learned), is_learned && counts);
    return Status();
  }

  /// Templates print what is no text as Python would, such as None.
  static Status check_content(const Json& message, size_t number) {
    const auto content = message.find("content");
    const bool is_missing = content == message.end() || content->is_null();
    if (is_missing && (message.contains("tool_calls") || message.contains("function_call"))) {
      return Status();
    }
    if (is_missing) return bad("message {}: expected \"content\", found none", number);
    if (content->is_string() || content->is_array()) return Status();
    return bad("message {}: \"content\": expected text or a list of parts, found {}", number,
               content->type_name());
  }

  /// OpenAI's `weight` of an answer.
  static Result<bool> has_weight(const Json& message, size_t number) {
    const auto weight = message.find("weight");
    if (weight == message.end() || weight->is_null()) return true;
    if (*weight == 0 || *weight == 1) return *weight == 1;
    return bad("message {}: \"weight\": expected 0 or 1, found {}", number,
               weight->is_number() ? weight->dump() : weight->type_name());
  }

  void add(Json message, bool is_learned) {
    if (message["role"] == "assistant") {
      ++out_.assistant_messages;
      if (is_learned) out_.answers.push_back(messages_.size());
    }
    messages_.push_back(std::move(message));
  }

  Conversation& out_;
  Json& messages_;
};

Status add_pair(Json& line, Reader& reader) {
  for (const bool is_answer : {false, true}) {
    const std::string_view key = is_answer ? "completion" : "prompt";
    const auto found = line.find(key);
    if (found == line.end())
      return bad("expected \"prompt\" and \"completion\", found no \"{}\"", key);
    if (found->is_string()) {
      reader.add_text(is_answer ? "assistant" : "user", std::move(*found), is_answer);
    } else {
      MEG_RETURN_IF_ERROR(reader.add_list(*found, key, is_answer));
    }
  }
  return Status();
}

/// What else a template may look at.
Status take_variables(Json& line, Json& variables) {
  for (const char* const key : {"tools", "documents"}) {
    const auto found = line.find(key);
    if (found == line.end() || found->is_null()) continue;
    Json value = std::move(*found);
    // Where a data set's columns have one type, lists are stored as text.
    if (value.is_string()) {
      const std::string text = std::move(value.get_ref<std::string&>());
      MEG_ASSIGN_OR_RETURN(value, parse_bounded(text));
    }
    if (!value.is_array()) return bad("\"{}\": expected a list", key);
    if (!value.empty()) variables[key] = std::move(value);
  }
  const auto more = line.find("chat_template_kwargs");
  if (more == line.end() || more->is_null()) return Status();
  if (!more->is_object()) {
    return bad("\"chat_template_kwargs\": expected an object, found {}", more->type_name());
  }
  for (auto& [key, value] : more->items()) {
    if (key != "messages" && key != "add_generation_prompt") variables[key] = std::move(value);
  }
  return Status();
}

}  // namespace

Result<Conversation> read_conversation(std::string_view json) {
  MEG_ASSIGN_OR_RETURN(Json line, parse_bounded(json));
  if (!line.is_object()) return bad("expected a JSON object of UTF-8");
  Conversation conversation;
  conversation.variables = Json::object();
  Reader reader(conversation);
  if (const auto messages = line.find("messages"); messages != line.end()) {
    MEG_RETURN_IF_ERROR(reader.add_list(*messages, "messages", true));
  } else if (const auto turns = line.find("conversations"); turns != line.end()) {
    const auto system = line.find("system");
    if (system != line.end() && system->is_string() && *system != "") {
      reader.add_text("system", *system, false);
    }
    MEG_RETURN_IF_ERROR(reader.add_list(*turns, "conversations", true));
  } else if (line.contains("prompt") || line.contains("completion")) {
    MEG_RETURN_IF_ERROR(add_pair(line, reader));
  } else {
    return bad("expected \"messages\", \"conversations\", or \"prompt\" and \"completion\"");
  }
  conversation.variables["add_generation_prompt"] = false;
  MEG_RETURN_IF_ERROR(take_variables(line, conversation.variables));
  return conversation;
}

}  // namespace meg::packing
