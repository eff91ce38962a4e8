#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/serving/chat_template.h"
#include "libmeg/serving/generation_engine.h"
#include "libmeg/serving/text_request.h"

namespace meg::serving {

/// What the routes of OpenAI's form share.
struct OpenAiOptions {
  std::string model;  ///< Empty: the request names none.
  int64_t n = 1;      ///< Choices of each prompt.
  /// Empty: 16 for completions, for chat as many as the server allows; in both cases no more than
  /// the model's positions leave.
  std::optional<int64_t> max_tokens;
  SamplingOptions sampling;  ///< Without its seed.
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::optional<int64_t>
      logprobs;  ///< Alternatives beside each token; empty: no log probabilities.
  std::vector<std::pair<int32_t, double>> logit_bias;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  bool ignore_eos = false;
  bool stream = false;
  bool include_usage = false;  ///< In a stream.
};

/// A text or its ids; an empty one stands for the beginning of a document.
using OpenAiPrompt = std::variant<std::string, std::vector<int32_t>>;

/// `POST /v1/completions`.
struct CompletionRequest : OpenAiOptions {
  std::vector<OpenAiPrompt> prompts;  ///< At least one.
  bool echo = false;
};

/// `POST /v1/chat/completions`.
struct ChatRequest : OpenAiOptions {
  Conversation conversation;
};

// Most choices of a request, prompts times n; and stop strings with their bytes.
inline constexpr int64_t kMaxChoices = 128;
inline constexpr size_t kMaxStops = 64;
inline constexpr size_t kMaxStopBytes = 1024;

/// body: JSON in OpenAI's form, where null is the default. Keys that would change the answer and
/// are not supported are errors, and so are misspelled ones and those of Megatron's `/api`; others
/// are ignored. kInvalidArgument with one sentence that begins with its key. vocab_size: of ids.
Result<CompletionRequest> read_completion_request(std::string_view body, const RequestRules& rules,
                                                  int64_t vocab_size);
Result<ChatRequest> read_chat_request(std::string_view body, const RequestRules& rules,
                                      int64_t vocab_size);

/// How messages call one of a request's prompts: `prompt`, or `prompt 3` (from 0) among several.
std::string prompt_name(size_t prompts, size_t index);

}  // namespace meg::serving
