// Any body of a request in OpenAI's form: it is refused with one line that names no more than a bit
// of it, or every value of it keeps its bounds.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "libmeg/serving/openai/internal/openai_keys.h"
#include "libmeg/serving/openai/openai_request.h"
#include "libmeg/text/utf8.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

using namespace meg::serving;

constexpr int64_t kVocabSize = 50;
constexpr int64_t kMaxTokens = 100;

void check(const OpenAiOptions& options) {
  MEG_FUZZ_CHECK(options.n >= 1 && options.n <= kMaxChoices);
  MEG_FUZZ_CHECK(options.max_tokens.value_or(0) >= 0 && options.max_tokens <= kMaxTokens);
  const SamplingOptions& sampling = options.sampling;
  MEG_FUZZ_CHECK(sampling.temperature > 0 && sampling.temperature <= kMaxTemperature);
  MEG_FUZZ_CHECK(sampling.top_k >= 0 && sampling.top_k <= kMaxTopK);
  MEG_FUZZ_CHECK(sampling.top_p >= 0 && sampling.top_p < 1);
  MEG_FUZZ_CHECK(sampling.top_k == 0 || sampling.top_p == 0);
  MEG_FUZZ_CHECK(options.stop.size() <= kMaxStops);
  for (const std::string& stop : options.stop) {
    MEG_FUZZ_CHECK(!stop.empty() && stop.size() <= kMaxStopBytes);
    MEG_FUZZ_CHECK(meg::text::find_invalid_utf8(stop) == std::string::npos);
  }
  MEG_FUZZ_CHECK(options.logprobs.value_or(0) >= 0 && options.logprobs <= kMaxTopLogprobs);
  int32_t last = -1;
  for (const auto& [id, bias] : options.logit_bias) {
    MEG_FUZZ_CHECK(id > last && id < kVocabSize && std::abs(bias) <= kMaxLogitBias);
    last = id;
  }
  MEG_FUZZ_CHECK(std::abs(options.presence_penalty) <= kMaxPenalty);
  MEG_FUZZ_CHECK(std::abs(options.frequency_penalty) <= kMaxPenalty);
  MEG_FUZZ_CHECK(options.stream || !options.include_usage);
}

void check(const CompletionRequest& request) {
  check(static_cast<const OpenAiOptions&>(request));
  const auto prompts = static_cast<int64_t>(request.prompts.size());
  MEG_FUZZ_CHECK(prompts >= 1 && prompts * request.n <= kMaxChoices);
  for (const OpenAiPrompt& prompt : request.prompts) {
    const auto* ids = std::get_if<std::vector<int32_t>>(&prompt);
    MEG_FUZZ_CHECK(ids == nullptr || std::ranges::all_of(*ids, [](int32_t id) {
                     return id >= 0 && id < kVocabSize;
                   }));
  }
}

void check(const ChatRequest& request) {
  check(static_cast<const OpenAiOptions&>(request));
  const Conversation& conversation = request.conversation;
  MEG_FUZZ_CHECK(!conversation.messages.empty() && conversation.variables.is_object());
  MEG_FUZZ_CHECK(!conversation.variables.contains("messages"));
  MEG_FUZZ_CHECK(!(conversation.add_generation_prompt && conversation.continue_final_message));
  for (const ChatMessage& message : conversation.messages) {
    MEG_FUZZ_CHECK(message.role == "system" || message.role == "user" ||
                   message.role == "assistant");
  }
}

template <class Request>
void check_result(const meg::Result<Request>& request) {
  if (request.has_value()) return check(*request);
  const std::string& message = request.error().message();
  MEG_FUZZ_CHECK(!message.empty() && message.size() < 500);
  MEG_FUZZ_CHECK(message.find('\n') == std::string::npos);
  MEG_FUZZ_CHECK(message.starts_with(key_of_message(message)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  RequestRules rules;
  rules.max_tokens_to_generate = kMaxTokens;
  check_result(read_completion_request(body, rules, kVocabSize));
  check_result(read_chat_request(body, rules, kVocabSize));
  return 0;
}
