#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/serving/chat_template.h"
#include "libmeg/serving/http/http_message.h"
#include "libmeg/serving/openai/openai_request.h"
#include "libmeg/serving/text_request.h"

namespace meg::serving {

class TextJobs;

/// What is served, as clients of OpenAI's routes see it.
struct OpenAiModel {
  std::string id;         ///< The `model` that requests name.
  int64_t positions = 0;  ///< Tokens of prompt and answer together.
  int64_t created = 0;    ///< Seconds since 1970.
  /// Empty: chat is refused.
  ChatTemplate chat_template = {};
  /// What else the page and GET /v1/models tell: {"parameters", "354,871,296"}, ...
  std::vector<std::pair<std::string, std::string>> facts = {};
};

/// `{"error": {"message", "type", "param", "code"}}`.
HttpResponse openai_error(int status, std::string_view message);

/// OpenAI's completions, chat and models, vLLM's tokenizer routes, and Megatron's `/completions`.
class OpenAiApi {
 public:
  /// jobs must outlive it.
  OpenAiApi(TextJobs& jobs, RequestRules rules, OpenAiModel model);

  /// It must outlive their server. Their handlers return once the answer is ready, or in a stream
  /// its beginning; a client that closes its connection cancels its job.
  std::vector<HttpRoute> routes();

 private:
  HttpResponse answer(const HttpCall& call,
                      Result<HttpResponse> (OpenAiApi::*handle)(const HttpCall&));
  Result<HttpResponse> complete(const HttpCall& call);
  Result<HttpResponse> chat(const HttpCall& call);
  Result<HttpResponse> run(const HttpCall& call, const OpenAiOptions& options, bool is_chat,
                           bool echo, std::vector<std::vector<int32_t>> prompts);
  Result<int64_t> max_tokens(const OpenAiOptions& options, int64_t usual,
                             std::span<const std::vector<int32_t>> prompts, size_t index) const;
  Result<HttpResponse> models(const HttpCall& call);
  Result<HttpResponse> tokenize(const HttpCall& call);
  Result<HttpResponse> detokenize(const HttpCall& call);
  Result<HttpResponse> tokenizer_info(const HttpCall& call);
  Result<std::vector<int32_t>> ids_of(const OpenAiPrompt& prompt);
  Status check_model(const std::string& model) const;

  TextJobs& jobs_;
  const RequestRules rules_;
  const OpenAiModel model_;
};

}  // namespace meg::serving
