#include "libmeg/serving/openai/internal/openai_keys.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "libmeg/serving/openai/openai_request.h"
#include "libmeg/text/nearest_name.h"
#include "libmeg/text/printable.h"

namespace meg::serving {
namespace {

using nlohmann::json;

constexpr auto kSharedKeys = std::to_array<std::string_view>(
    {"model", "n", "max_tokens", "temperature", "top_p", "top_k", "seed", "stop", "logprobs",
     "logit_bias", "presence_penalty", "frequency_penalty", "ignore_eos", "stream",
     "stream_options"});
constexpr auto kCompletionKeys = std::to_array<std::string_view>({"prompt", "echo"});
constexpr auto kChatKeys = std::to_array<std::string_view>(
    {"messages", "max_completion_tokens", "top_logprobs", "documents", "add_generation_prompt",
     "continue_final_message", "chat_template_kwargs"});

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

}  // namespace

Status check_openai_keys(const JsonFields& fields, bool is_chat) {
  std::vector<std::string_view> known(kSharedKeys.begin(), kSharedKeys.end());
  const auto own = is_chat ? std::span<const std::string_view>(kChatKeys) : kCompletionKeys;
  known.insert(known.end(), own.begin(), own.end());
  int64_t n = 1;
  MEG_RETURN_IF_ERROR(fields.read("n", &n, 1, kMaxChoices));
  for (const auto& [key, value] : fields.object().items()) {
    MEG_RETURN_IF_ERROR(check_key(key, value, n, known));
  }
  return {};
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
