#include "libmeg/serving/openai/openai_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "libmeg/serving/internal/json_fields.h"
#include "libmeg/serving/openai/internal/openai_keys.h"
#include "libmeg/serving/openai/internal/openai_options.h"

namespace meg::serving {
namespace {

using nlohmann::json;

constexpr size_t kMaxMessages = 1024;
constexpr size_t kMaxOrderedKeys = 1000;

/// What transformers' apply_chat_template takes for itself: no variables of a template, or those
/// that the request has keys for.
constexpr auto kNoTemplateVariables = std::to_array<std::string_view>(
    {"messages", "conversation", "conversations", "tools", "documents", "chat_template",
     "add_generation_prompt", "continue_final_message", "tokenize", "sanitize_control_tokens",
     "padding", "truncation", "max_length", "return_tensors", "return_dict",
     "return_assistant_tokens_mask", "tokenizer_kwargs"});

bool is_number_list(const json& value) {
  return value.is_array() && !value.empty() && value.front().is_number();
}

/// A string, a list of ids, or a list of either; an empty list of ids cannot be told from an empty
/// list of prompts, so only the latter is meant by [].
Status read_prompts(const JsonFields& fields, int64_t vocab_size, CompletionRequest* request) {
  const json* found = fields.find("prompt");
  // OpenAI's default is the separator of documents, which an empty prompt stands for here.
  if (found == nullptr) {
    request->prompts.emplace_back("");
    return {};
  }
  const bool is_one = found->is_string() || is_number_list(*found);
  if (!is_one && !found->is_array()) {
    return refuse(
        "prompt must be a string, a list of strings, a list of ids or a list of such "
        "lists, found {}",
        JsonFields::describe(*found));
  }
  const size_t count = is_one ? 1 : found->size();
  if (count == 0) return refuse("prompt is empty: at least one is required");
  const auto choices = static_cast<int64_t>(count) * request->n;
  if (choices > kMaxChoices) {
    return refuse("prompt has {} prompts, n is {}: the maximum is {} choices together", count,
                  request->n, kMaxChoices);
  }
  for (size_t i = 0; i < count; ++i) {
    const json& prompt = is_one ? *found : (*found)[i];
    if (prompt.is_string()) {
      request->prompts.emplace_back(prompt.get<std::string>());
    } else if (prompt.is_array()) {
      MEG_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                           read_ids(prompt, prompt_name(count, i), vocab_size));
      request->prompts.emplace_back(std::move(ids));
    } else {
      return refuse("prompt must have strings or lists of ids, found {} at {}",
                    JsonFields::describe(prompt), i);
    }
  }
  return {};
}

/// The parts of a message's content: a string, or a list of `{"type": "text", "text": ...}`.
Result<std::string> read_content(const json& message, size_t index) {
  const json content = message.value("content", json());
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const json& part : content.is_array() ? content : json::array({json()})) {
    if (!part.is_object() || part.value("type", json()) != "text" ||
        !part.value("text", json()).is_string()) {
      return refuse("messages must have a text as content, found {} in message {}",
                    JsonFields::describe(part), index);
    }
    text += part["text"].get<std::string>();
  }
  return text;
}

Status read_messages(const JsonFields& fields, std::vector<ChatMessage>* messages) {
  const json* found = fields.find("messages");
  if (found == nullptr || !found->is_array() || found->empty() || found->size() > kMaxMessages) {
    return refuse("messages must be a list of 1 to {} messages, found {}", kMaxMessages,
                  found == nullptr ? "none" : JsonFields::describe(*found));
  }
  for (const json& message : *found) {
    const json role = message.is_object() ? message.value("role", json()) : json();
    if (role != "system" && role != "user" && role != "assistant") {
      return refuse("messages must have the role system, user or assistant, found {} in message {}",
                    JsonFields::describe(role), messages->size());
    }
    for (const std::string_view key : {"tool_calls", "function_call", "refusal", "audio"}) {
      if (message.contains(key) && !message[key].is_null()) {
        return refuse("messages with {} are not supported, found one in message {}", key,
                      messages->size());
      }
    }
    MEG_ASSIGN_OR_RETURN(std::string content, read_content(message, messages->size()));
    messages->push_back({role.get<std::string>(), std::move(content)});
  }
  return {};
}

/// ordered_json looks for every key it reads among all others of its object.
bool has_wide_object(const json& value) {
  return value.is_structured() && ((value.is_object() && value.size() > kMaxOrderedKeys) ||
                                   std::ranges::any_of(value, has_wide_object));
}

/// What only the template looks at. body: the request, as templates see their values in its order.
Status read_template_variables(const JsonFields& fields, std::string_view body,
                               Conversation* conversation) {
  MEG_RETURN_IF_ERROR(fields.read("continue_final_message", &conversation->continue_final_message));
  conversation->add_generation_prompt = !conversation->continue_final_message;
  MEG_RETURN_IF_ERROR(fields.read("add_generation_prompt", &conversation->add_generation_prompt));
  if (conversation->continue_final_message && conversation->add_generation_prompt) {
    return refuse("add_generation_prompt and continue_final_message cannot both be true");
  }
  const json* documents = fields.find("documents");
  const auto is_object = [](const json& value) { return value.is_object(); };
  if (documents != nullptr &&
      !(documents->is_array() && std::ranges::all_of(*documents, is_object))) {
    return refuse("documents must be a list of objects, found {}",
                  JsonFields::describe(*documents));
  }
  const json* variables = fields.find("chat_template_kwargs");
  if (variables != nullptr && !variables->is_object()) {
    return refuse("chat_template_kwargs must be an object, found {}",
                  JsonFields::describe(*variables));
  }
  if (documents == nullptr && variables == nullptr) return {};
  if (has_wide_object(fields.object())) {
    return refuse("{} needs a request of objects with at most {} keys each",
                  variables != nullptr ? "chat_template_kwargs" : "documents", kMaxOrderedKeys);
  }
  auto ordered = nlohmann::ordered_json::parse(body);
  if (variables != nullptr) {
    for (const std::string_view name : kNoTemplateVariables) {
      if (!variables->contains(name)) continue;
      return refuse("chat_template_kwargs must not have {}: it is no variable of a template's own",
                    name);
    }
    conversation->variables = std::move(ordered["chat_template_kwargs"]);
  }
  if (documents != nullptr) conversation->variables["documents"] = std::move(ordered["documents"]);
  return {};
}

Status read_chat_logprobs(const JsonFields& fields, ChatRequest* request) {
  bool wanted = false;
  MEG_RETURN_IF_ERROR(fields.read("logprobs", &wanted));
  if (!wanted && fields.has("top_logprobs")) return refuse("top_logprobs needs logprobs true");
  if (!wanted) return {};
  request->logprobs = 0;
  return read_logprobs(fields, "top_logprobs", request);
}

}  // namespace

Result<CompletionRequest> read_completion_request(std::string_view body, const RequestRules& rules,
                                                  int64_t vocab_size) {
  MEG_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::parse(body));
  fields.drop_nulls();
  CompletionRequest request;
  MEG_RETURN_IF_ERROR(check_openai_keys(fields, false));
  MEG_RETURN_IF_ERROR(read_openai_options(fields, rules, vocab_size, &request));
  MEG_RETURN_IF_ERROR(read_prompts(fields, vocab_size, &request));
  MEG_RETURN_IF_ERROR(fields.read("echo", &request.echo));
  MEG_RETURN_IF_ERROR(read_logprobs(fields, "logprobs", &request));
  return request;
}

Result<ChatRequest> read_chat_request(std::string_view body, const RequestRules& rules,
                                      int64_t vocab_size) {
  MEG_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::parse(body));
  fields.drop_nulls();
  ChatRequest request;
  MEG_RETURN_IF_ERROR(check_openai_keys(fields, true));
  MEG_RETURN_IF_ERROR(read_openai_options(fields, rules, vocab_size, &request));
  MEG_RETURN_IF_ERROR(read_max_tokens(fields, "max_completion_tokens", rules, &request));
  MEG_RETURN_IF_ERROR(read_messages(fields, &request.conversation.messages));
  MEG_RETURN_IF_ERROR(read_template_variables(fields, body, &request.conversation));
  MEG_RETURN_IF_ERROR(read_chat_logprobs(fields, &request));
  return request;
}

std::string prompt_name(size_t prompts, size_t index) {
  return prompts == 1 ? "prompt" : fmt::format("prompt {}", index);
}

}  // namespace meg::serving
