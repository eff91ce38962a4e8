#include "libmeg/serving/openai/openai_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "libmeg/serving/internal/json_fields.h"
#include "libmeg/text/nearest_name.h"
#include "libmeg/text/printable.h"

namespace meg::serving {
namespace {

using nlohmann::json;

constexpr size_t kShownKey = 60;
constexpr size_t kMaxMessages = 1024;
constexpr size_t kMaxOrderedKeys = 1000;

constexpr auto kSharedKeys = std::to_array<std::string_view>(
    {"model", "n", "max_tokens", "temperature", "top_p", "top_k", "seed", "stop", "logprobs",
     "logit_bias", "presence_penalty", "frequency_penalty", "ignore_eos", "stream",
     "stream_options"});
constexpr auto kCompletionKeys = std::to_array<std::string_view>({"prompt", "echo"});
constexpr auto kChatKeys = std::to_array<std::string_view>(
    {"messages", "max_completion_tokens", "top_logprobs", "documents", "add_generation_prompt",
     "continue_final_message", "chat_template_kwargs"});

/// What transformers' apply_chat_template takes for itself: no variables of a template, or those
/// that the request has keys for.
constexpr auto kNoTemplateVariables = std::to_array<std::string_view>(
    {"messages", "conversation", "conversations", "tools", "documents", "chat_template",
     "add_generation_prompt", "continue_final_message", "tokenize", "sanitize_control_tokens",
     "padding", "truncation", "max_length", "return_tensors", "return_dict",
     "return_assistant_tokens_mask", "tokenizer_kwargs"});

/// A key that would change the answer, and the value (JSON) that would not.
struct Unsupported {
  std::string_view key, neutral;
};

constexpr auto kUnsupported = std::to_array<Unsupported>({
    {"suffix", "\"\""},
    {"best_of", "1"},
    {"min_p", "0"},
    {"typical_p", "1"},
    {"repetition_penalty", "1"},
    {"repeat_penalty", "1"},
    {"length_penalty", "1"},
    {"min_tokens", "0"},
    {"use_beam_search", "false"},
    {"early_stopping", "false"},
    {"stop_token_ids", "[]"},
    {"bad_words", "[]"},
    {"allowed_token_ids", ""},
    {"include_stop_str_in_output", "false"},
    {"skip_special_tokens", "true"},
    {"truncate_prompt_tokens", ""},
    {"prompt_logprobs", ""},
    {"response_format", R"({"type":"text"})"},
    {"structured_outputs", ""},
    {"guided_json", ""},
    {"guided_regex", ""},
    {"guided_choice", ""},
    {"guided_grammar", ""},
    {"grammar", "\"\""},
    {"json_schema", ""},
    {"logits_processors", "[]"},
    {"tools", "[]"},
    {"functions", "[]"},
    {"tool_choice", "\"none\""},
    {"function_call", "\"none\""},
    {"modalities", R"(["text"])"},
    {"audio", ""},
    {"prediction", ""},
    {"reasoning_effort", "\"none\""},
    {"web_search_options", ""},
    {"echo", "false"},
    {"documents", ""},
    {"chat_template", ""},
    {"chat_template_kwargs", "{}"},
    {"continue_final_message", "false"},
    {"add_generation_prompt", "true"},
});

/// Keys of Megatron's `PUT /api`, and what they are called here; empty: there is none.
struct OtherName {
  std::string_view key, here;
};

constexpr auto kMegatronKeys = std::to_array<OtherName>({
    {"prompts", "prompt"},
    {"tokens_to_generate", "max_tokens"},
    {"random_seed", "seed"},
    {"stop_on_eol", "stop"},
    {"stop_on_double_eol", "stop"},
    {"add_BOS", ""},
    {"top_p_decay", ""},
    {"top_p_bound", ""},
    {"beam_width", ""},
    {"stop_token", "stop"},
    {"prevent_newline_after_colon", ""},
});

Status check_key(const std::string& key, const json& value, int64_t n,
                 std::span<const std::string_view> known) {
  if (std::ranges::find(known, key) != known.end()) return {};
  const auto unsupported = std::ranges::find(kUnsupported, key, &Unsupported::key);
  if (unsupported != kUnsupported.end()) {
    // The best of n are all of them.
    if (key == "best_of" && value == n) return {};
    if (value == json::parse(unsupported->neutral, nullptr, false)) return {};
    return refuse("{} is not supported, found {}", key, JsonFields::describe(value));
  }
  const auto megatron = std::ranges::find(kMegatronKeys, key, &OtherName::key);
  if (megatron != kMegatronKeys.end()) {
    if (megatron->here.empty()) return refuse("{} is a key of PUT /api, not of this path", key);
    return refuse("{} is a key of PUT /api: {} is its name here", key, megatron->here);
  }
  // Nearer than for keys of which no other is ignored: `store` is OpenAI's, and means not stop.
  if (const std::optional<size_t> nearest = text::nearest_name(key, known);
      nearest && text::edit_distance(key, known[*nearest]) <= key.size() / 4) {
    return refuse("{} is not a key of this request: did you mean {}?",
                  text::printable(key, kShownKey), known[*nearest]);
  }
  return {};
}

template <size_t N>
Status check_keys(const JsonFields& fields, const std::array<std::string_view, N>& own) {
  std::vector<std::string_view> known(kSharedKeys.begin(), kSharedKeys.end());
  known.insert(known.end(), own.begin(), own.end());
  int64_t n = 1;
  MEG_RETURN_IF_ERROR(fields.read("n", &n, 1, kMaxChoices));
  for (const auto& [key, value] : fields.object().items()) {
    MEG_RETURN_IF_ERROR(check_key(key, value, n, known));
  }
  return {};
}

Status read_number(const JsonFields& fields, std::string_view key, double* value, double min,
                   double max) {
  MEG_RETURN_IF_ERROR(fields.read(key, value));
  if (*value >= min && *value <= max) return {};
  return refuse("{} must be a number from {} to {}, found {}", key, min, max, *value);
}

/// OpenAI's zeros, ones and minus ones to what the engine calls off and greedy.
Status read_openai_sampling(const JsonFields& fields, SamplingOptions* sampling) {
  if (fields.has("top_k") && !fields.has("top_p")) sampling->top_p = 0;
  if (fields.has("top_p") && !fields.has("top_k")) sampling->top_k = 0;
  MEG_RETURN_IF_ERROR(
      read_number(fields, "temperature", &sampling->temperature, 0, kMaxTemperature));
  MEG_RETURN_IF_ERROR(fields.read("top_k", &sampling->top_k, -1, kMaxTopK));
  sampling->top_k = std::max<int64_t>(sampling->top_k, 0);
  if (fields.has("top_p")) {
    MEG_RETURN_IF_ERROR(fields.read("top_p", &sampling->top_p));
    // Megatron's server means all tokens by 0, others the most likely one.
    if (!(sampling->top_p > 0 && sampling->top_p <= 1)) {
      return refuse(
          "top_p must be greater than 0 and at most 1, found {}: 1 samples from all tokens, "
          "temperature 0 takes the most likely one",
          sampling->top_p);
    }
    if (sampling->top_p == 1) sampling->top_p = 0;
  }
  if (sampling->temperature == 0) {
    sampling->temperature = 1;
    sampling->top_k = 1;
  }
  if (sampling->top_k == 1) sampling->top_p = 0;
  if (sampling->top_k > 0 && sampling->top_p > 0) {
    return refuse("top_k of more than 1 and top_p below 1 cannot both be set");
  }
  return {};
}

Status read_stop(const JsonFields& fields, std::vector<std::string>* stop) {
  const json* found = fields.find("stop");
  if (found == nullptr) return {};
  const json list = found->is_array() ? *found : json::array({*found});
  if (list.size() > kMaxStops) {
    return refuse("stop has {} strings: the maximum is {}", list.size(), kMaxStops);
  }
  for (const json& each : list) {
    if (!each.is_string()) {
      return refuse("stop must be a string or a list of strings, found {}",
                    JsonFields::describe(each));
    }
    const auto& text = each.get_ref<const std::string&>();
    if (text.empty() || text.size() > kMaxStopBytes) {
      return refuse("stop must have strings of 1 to {} bytes, found {}", kMaxStopBytes,
                    text.size());
    }
    stop->push_back(text);
  }
  return {};
}

Status read_logit_bias(const JsonFields& fields, int64_t vocab_size, OpenAiOptions* options) {
  const json* found = fields.find("logit_bias");
  if (found == nullptr) return {};
  if (!found->is_object()) {
    return refuse("logit_bias must be an object of ids and numbers, found {}",
                  JsonFields::describe(*found));
  }
  for (const auto& [key, value] : found->items()) {
    int32_t id = -1;
    const char* const end = key.data() + key.size();
    if (std::from_chars(key.data(), end, id).ptr != end || id < 0 || id >= vocab_size) {
      return refuse("logit_bias must have ids from 0 to {}, found {}", vocab_size - 1,
                    text::printable(key, kShownKey));
    }
    const double bias = value.is_number() ? value.get<double>() : kMaxLogitBias + 1;
    if (!(bias >= -kMaxLogitBias && bias <= kMaxLogitBias)) {
      return refuse("logit_bias must have numbers from {} to {}, found {} for {}", -kMaxLogitBias,
                    kMaxLogitBias, JsonFields::describe(value), text::printable(key, kShownKey));
    }
    options->logit_bias.emplace_back(id, bias);
  }
  // `5` and `05` are keys of their own.
  std::ranges::sort(options->logit_bias);
  if (std::ranges::adjacent_find(options->logit_bias, {}, [](const auto& bias) {
        return bias.first;
      }) != options->logit_bias.end()) {
    return refuse("logit_bias has an id twice");
  }
  return {};
}

Status read_stream(const JsonFields& fields, OpenAiOptions* options) {
  MEG_RETURN_IF_ERROR(fields.read("stream", &options->stream));
  const json* found = fields.find("stream_options");
  if (found == nullptr) return {};
  if (!options->stream) return refuse("stream_options needs stream true");
  if (!found->is_object()) {
    return refuse("stream_options must be an object, found {}", JsonFields::describe(*found));
  }
  const json usage = found->value("include_usage", json(false));
  if (!usage.is_boolean()) {
    return refuse("stream_options must have true or false for include_usage, found {}",
                  JsonFields::describe(usage));
  }
  options->include_usage = usage.get<bool>();
  return {};
}

Status read_max_tokens(const JsonFields& fields, std::string_view key, const RequestRules& rules,
                       OpenAiOptions* options) {
  if (!fields.has(key)) return {};
  int64_t max_tokens = 0;
  MEG_RETURN_IF_ERROR(fields.read(key, &max_tokens, 0, kMaxInteger));
  if (max_tokens > rules.max_tokens_to_generate) {
    return refuse("{} is {}: this server generates at most {}", key, max_tokens,
                  rules.max_tokens_to_generate);
  }
  options->max_tokens = max_tokens;
  return {};
}

/// All but the prompt and log probabilities, which completions and chat ask for differently.
Status read_options(const JsonFields& fields, const RequestRules& rules, int64_t vocab_size,
                    OpenAiOptions* options) {
  MEG_RETURN_IF_ERROR(fields.read("model", &options->model));
  MEG_RETURN_IF_ERROR(fields.read("n", &options->n, 1, kMaxChoices));
  MEG_RETURN_IF_ERROR(read_max_tokens(fields, "max_tokens", rules, options));
  options->sampling = rules.sampling;
  MEG_RETURN_IF_ERROR(read_openai_sampling(fields, &options->sampling));
  if (fields.has("seed")) {
    int64_t seed = -1;
    MEG_RETURN_IF_ERROR(fields.read("seed", &seed, -1, kMaxInteger));
    if (seed >= 0) options->seed = static_cast<uint64_t>(seed);
  }
  MEG_RETURN_IF_ERROR(read_stop(fields, &options->stop));
  MEG_RETURN_IF_ERROR(read_logit_bias(fields, vocab_size, options));
  MEG_RETURN_IF_ERROR(read_number(fields, "presence_penalty", &options->presence_penalty,
                                  -kMaxPenalty, kMaxPenalty));
  MEG_RETURN_IF_ERROR(read_number(fields, "frequency_penalty", &options->frequency_penalty,
                                  -kMaxPenalty, kMaxPenalty));
  MEG_RETURN_IF_ERROR(fields.read("ignore_eos", &options->ignore_eos));
  return read_stream(fields, options);
}

Status read_logprobs(const JsonFields& fields, std::string_view key, OpenAiOptions* options) {
  if (!fields.has(key)) return {};
  int64_t logprobs = 0;
  MEG_RETURN_IF_ERROR(fields.read(key, &logprobs, 0, kMaxTopLogprobs));
  options->logprobs = logprobs;
  return {};
}

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
      MEG_ASSIGN_OR_RETURN(std::vector<int32_t> ids, read_ids(prompt, "prompt", vocab_size));
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
  MEG_RETURN_IF_ERROR(check_keys(fields, kCompletionKeys));
  MEG_RETURN_IF_ERROR(read_options(fields, rules, vocab_size, &request));
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
  MEG_RETURN_IF_ERROR(check_keys(fields, kChatKeys));
  MEG_RETURN_IF_ERROR(read_options(fields, rules, vocab_size, &request));
  MEG_RETURN_IF_ERROR(read_max_tokens(fields, "max_completion_tokens", rules, &request));
  MEG_RETURN_IF_ERROR(read_messages(fields, &request.conversation.messages));
  MEG_RETURN_IF_ERROR(read_template_variables(fields, body, &request.conversation));
  MEG_RETURN_IF_ERROR(read_chat_logprobs(fields, &request));
  return request;
}

std::string_view key_of_message(std::string_view message) {
  const std::string_view word = message.substr(0, message.find(' '));
  const auto names = [&](const auto& keys) { return std::ranges::find(keys, word) != keys.end(); };
  const bool is_key =
      names(kSharedKeys) || names(kCompletionKeys) || names(kChatKeys) ||
      std::ranges::find(kUnsupported, word, &Unsupported::key) != kUnsupported.end();
  return is_key ? word : std::string_view();
}

}  // namespace meg::serving
