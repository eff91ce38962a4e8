#include "libmeg/serving/openai/openai_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "libmeg/serving/internal/json_fields.h"
#include "libmeg/serving/internal/text_jobs.h"
#include "libmeg/serving/openai/internal/openai_answer.h"
#include "libmeg/serving/openai/internal/openai_keys.h"
#include "libmeg/text/printable.h"

namespace meg::serving {
namespace {

using nlohmann::json;

/// OpenAI's default.
constexpr int64_t kUsualMaxTokens = 16;

/// Tokens with log probabilities times what is told of each: some 30 bytes of an answer each.
constexpr int64_t kMaxLogprobEntries = int64_t{1} << 21;

constexpr size_t kShownPrompt = 200;

std::string_view error_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

json error_code(int status) {
  if (status == 401) return "invalid_api_key";
  if (status == 404) return "not_found";
  if (status == 429) return "queue_full";
  return nullptr;
}

template <class Json>
std::string written(const Json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

json token_or_null(const tokenizer::Tokenizer& tokenizer, std::optional<int32_t> token) {
  if (!token) return nullptr;
  return std::string(tokenizer.token_bytes(*token).value_or(std::string_view()));
}

HttpResponse error_response(int status, std::string_view message, json code) {
  const std::string_view key = status == 400 ? key_of_message(message) : std::string_view();
  const json error = {{"message", message},
                      {"type", error_type(status)},
                      {"param", key.empty() ? json() : json(key)},
                      {"code", std::move(code)}};
  return {.status = status, .body = written(json{{"error", error}})};
}

}  // namespace

HttpResponse openai_error(int status, std::string_view message) {
  return error_response(status, message, error_code(status));
}

HttpResponse openai_error_of(const Status& status) {
  const int http = http_status(status.code());
  const bool is_too_long = status.code() == StatusCode::kOutOfRange;
  return error_response(http, status.message(),
                        is_too_long ? json("context_length_exceeded") : error_code(http));
}

OpenAiApi::OpenAiApi(TextJobs& jobs, RequestRules rules, OpenAiModel model)
    : jobs_(jobs), rules_(rules), model_(std::move(model)) {}

std::vector<HttpRoute> OpenAiApi::routes() {
  const auto handler = [this](Result<HttpResponse> (OpenAiApi::*handle)(const HttpCall&)) {
    return [this, handle](const HttpCall& call) { return answer(call, handle); };
  };
  std::vector<HttpRoute> routes;
  const auto add = [&](std::string method, std::string path,
                       Result<HttpResponse> (OpenAiApi::*handle)(const HttpCall&)) {
    const bool is_post = method == "POST";
    routes.push_back({.methods = {std::move(method)},
                      .path = std::move(path),
                      .takes_json = is_post,
                      .handler = handler(handle),
                      .error_form = openai_error});
  };
  // Without /v1 as Megatron's server has them, too.
  for (const std::string prefix : {"/v1", ""}) {
    add("POST", prefix + "/completions", &OpenAiApi::complete);
    add("POST", prefix + "/chat/completions", &OpenAiApi::chat);
  }
  add("GET", "/v1/models", &OpenAiApi::models);
  add("POST", "/tokenize", &OpenAiApi::tokenize);
  add("POST", "/detokenize", &OpenAiApi::detokenize);
  add("GET", "/tokenizer_info", &OpenAiApi::tokenizer_info);
  add("GET", "/v1/models/", &OpenAiApi::models);
  routes.back().is_prefix = true;
  routes.push_back({.path = "/v1/",
                    .is_prefix = true,
                    .handler =
                        [](const HttpCall&) {
                          return openai_error(404,
                                              "there is nothing at this path: /v1/completions, "
                                              "/v1/chat/completions and /v1/models are served");
                        },
                    .error_form = openai_error});
  return routes;
}

HttpResponse OpenAiApi::answer(const HttpCall& call,
                               Result<HttpResponse> (OpenAiApi::*handle)(const HttpCall&)) {
  try {
    Result<HttpResponse> response = (this->*handle)(call);
    return response.has_value() ? *std::move(response) : openai_error_of(response.error());
  } catch (const std::bad_alloc&) {
    return openai_error(503, "no memory is left for this request");
  }
}

Result<HttpResponse> OpenAiApi::complete(const HttpCall& call) {
  const int64_t vocab_size = jobs_.tokenizer().vocab_size();
  MEG_ASSIGN_OR_RETURN(const CompletionRequest request,
                       read_completion_request(call.body, rules_, vocab_size));
  MEG_RETURN_IF_ERROR(check_model(request.model));
  std::vector<std::vector<int32_t>> prompts;
  for (const OpenAiPrompt& prompt : request.prompts) {
    MEG_ASSIGN_OR_RETURN(prompts.emplace_back(), ids_of(prompt));
  }
  const OpenAiPrompt& first = request.prompts.front();
  if (const auto* text = std::get_if<std::string>(&first)) {
    call.log.first_prompt = text->substr(0, kShownPrompt);
  } else {
    const auto& ids = prompts.front();
    const auto shown = std::span(ids).first(std::min(ids.size(), kShownPrompt));
    MEG_ASSIGN_OR_RETURN(call.log.first_prompt, jobs_.tokenizer().decode(shown));
  }
  return run(call, request, false, request.echo, std::move(prompts));
}

Result<HttpResponse> OpenAiApi::chat(const HttpCall& call) {
  if (!model_.chat_template) {
    return make_error(StatusCode::kUnsupported,
                      "the tokenizer of {} has no chat template: use /v1/completions", model_.id);
  }
  const int64_t vocab_size = jobs_.tokenizer().vocab_size();
  MEG_ASSIGN_OR_RETURN(const ChatRequest request, read_chat_request(call.body, rules_, vocab_size));
  MEG_RETURN_IF_ERROR(check_model(request.model));
  call.log.first_prompt = request.conversation.messages.back().content.substr(0, kShownPrompt);
  MEG_ASSIGN_OR_RETURN(const std::string text, model_.chat_template(request.conversation));
  MEG_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, ids_of(text));
  return run(call, request, true, false, {std::move(prompt)});
}

Result<HttpResponse> OpenAiApi::run(const HttpCall& call, const OpenAiOptions& options,
                                    bool is_chat, bool echo,
                                    std::vector<std::vector<int32_t>> prompts) {
  // Count from the request's arrival: waiting in the queue counts.
  const TextJobs::Clock::time_point deadline = jobs_.deadline();
  const std::optional<int32_t> eod = options.ignore_eos ? std::nullopt : jobs_.tokenizer().eod();
  OpenAiAnswer::Head head;
  head.created = std::time(nullptr);
  head.id = fmt::format("{}-{:x}", is_chat ? "chatcmpl" : "cmpl", jobs_.new_number());
  head.model = model_.id;
  head.include_usage = options.include_usage;
  const int64_t usual = is_chat ? rules_.max_tokens_to_generate : kUsualMaxTokens;
  const uint64_t seed = options.seed ? *options.seed : jobs_.new_seed();
  GenerationJob job;
  int64_t entries = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<int32_t>& prompt = prompts[i];
    head.prompt_tokens += std::ssize(prompt);
    GenerationRequest text;
    MEG_ASSIGN_OR_RETURN(text.tokens_to_generate, max_tokens(options, usual, prompts, i));
    entries += options.n * (text.tokens_to_generate + std::ssize(prompt)) *
               (options.logprobs ? *options.logprobs + 1 : 0);
    text.prompt = prompt;
    text.sampling = options.sampling;
    text.stop.on_eod = !options.ignore_eos;
    text.logprobs = options.logprobs.has_value();
    text.top_logprobs = options.logprobs.value_or(0);
    text.logit_bias = options.logit_bias;
    text.presence_penalty = options.presence_penalty;
    text.frequency_penalty = options.frequency_penalty;
    for (int64_t choice = 0; choice < options.n; ++choice) {
      text.sampling.seed = text_seed(seed, job.size());
      job.push_back(text);
    }
  }
  if (entries > kMaxLogprobEntries) {
    return make_error(StatusCode::kInvalidArgument,
                      "logprobs for the tokens of all choices are {} numbers: the maximum is {}",
                      entries, kMaxLogprobEntries);
  }
  call.log.prompts = std::ssize(prompts);
  call.log.prompt_tokens = head.prompt_tokens;
  OpenAiChoice::Form form{is_chat, echo, options.stop, options.logprobs, eod};
  const auto answer = std::make_shared<OpenAiAnswer>(jobs_, std::move(form), std::move(head),
                                                     deadline, call.client);
  for (const GenerationRequest& text : job) MEG_RETURN_IF_ERROR(answer->add_choice(text.prompt));
  // Stop strings are looked for while the tokens come.
  const bool streams = options.stream || !options.stop.empty();
  if (const Status status = answer->submit(std::move(job), streams, call.client_address());
      !status.ok()) {
    if (status.code() == StatusCode::kResourceExhausted) return openai_error(429, status.message());
    return status;
  }
  MEG_ASSIGN_OR_RETURN(const bool is_there, options.stream ? answer->wait() : answer->finish());
  if (!is_there) return client_gone();
  if (!options.stream) {
    call.log.new_tokens = answer->completion_tokens();
    return HttpResponse{.body = answer->whole()};
  }
  return HttpResponse{
      .content_type = "text/event-stream; charset=utf-8",
      .headers = {{"Cache-Control", "no-cache"}},
      .write = [answer, &log = call.log](HttpBodyWriter& writer) { answer->stream(writer, &log); }};
}

/// As many as are asked for, or `usual` unless the positions end before.
Result<int64_t> OpenAiApi::max_tokens(const OpenAiOptions& options, int64_t usual,
                                      std::span<const std::vector<int32_t>> prompts,
                                      size_t index) const {
  const int64_t left = model_.positions - std::ssize(prompts[index]);
  if (!options.max_tokens && left > 0) {
    return std::min({usual, rules_.max_tokens_to_generate, left});
  }
  if (options.max_tokens && *options.max_tokens <= left) return *options.max_tokens;
  return make_error(
      StatusCode::kOutOfRange,
      "{} has {} tokens{}: the model has {} positions for prompt and new tokens (lm-eval: "
      "max_length={})",
      prompt_name(prompts.size(), index), prompts[index].size(),
      options.max_tokens ? fmt::format(" and max_tokens is {}", *options.max_tokens) : "",
      model_.positions, model_.positions);
}

Result<std::vector<int32_t>> OpenAiApi::ids_of(const OpenAiPrompt& prompt) {
  std::vector<int32_t> ids;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    MEG_ASSIGN_OR_RETURN(ids, jobs_.encode(*text));
  } else {
    ids = std::get<std::vector<int32_t>>(prompt);
  }
  if (!ids.empty()) return ids;
  const std::optional<int32_t> eod = jobs_.tokenizer().eod();
  if (!eod) {
    return make_error(StatusCode::kInvalidArgument,
                      "prompt is empty, and the tokenizer has no end-of-document token to begin "
                      "with");
  }
  return std::vector<int32_t>{*eod};
}

Status OpenAiApi::check_model(const std::string& model) const {
  if (model.empty() || model == model_.id) return {};
  return make_error(StatusCode::kNotFound, "the model {} is not served here, {} is",
                    text::printable(model, kShownPrompt), model_.id);
}

Result<HttpResponse> OpenAiApi::models(const HttpCall& call) {
  // In the order in which people read it.
  using nlohmann::ordered_json;
  ordered_json facts = ordered_json::object();
  for (const auto& [name, value] : model_.facts) facts[name] = value;
  ordered_json model = {{"id", model_.id},
                        {"object", "model"},
                        {"created", model_.created},
                        {"owned_by", "libmeg"},
                        {"root", model_.id},
                        {"max_model_len", model_.positions},
                        {"facts", facts},
                        {"defaults",
                         {{"max_tokens", std::min(kUsualMaxTokens, rules_.max_tokens_to_generate)},
                          {"temperature", rules_.sampling.temperature},
                          {"top_k", rules_.sampling.top_k == 0 ? -1 : rules_.sampling.top_k},
                          {"top_p", rules_.sampling.top_p == 0 ? 1 : rules_.sampling.top_p}}}};
  constexpr std::string_view kList = "/v1/models";
  if (call.request.path == kList) {
    return HttpResponse{
        .body = written(ordered_json{{"object", "list"}, {"data", ordered_json::array({model})}})};
  }
  MEG_RETURN_IF_ERROR(check_model(call.request.path.substr(kList.size() + 1)));
  return HttpResponse{.body = written(model)};
}

/// vLLM's form. A prompt that is the text of a special token is that token, as lm-eval expects.
Result<HttpResponse> OpenAiApi::tokenize(const HttpCall& call) {
  MEG_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::parse(call.body));
  fields.drop_nulls();
  std::string model, prompt;
  bool with_strings = false;
  if (!fields.has("prompt")) {
    return make_error(StatusCode::kInvalidArgument, "prompt is required: a string");
  }
  MEG_RETURN_IF_ERROR(fields.read("model", &model));
  MEG_RETURN_IF_ERROR(fields.read("prompt", &prompt));
  MEG_RETURN_IF_ERROR(fields.read("return_token_strs", &with_strings));
  MEG_RETURN_IF_ERROR(check_model(model));
  const tokenizer::Tokenizer& tokenizer = jobs_.tokenizer();
  const std::vector<tokenizer::SpecialToken> special = tokenizer.special_tokens();
  const auto named = std::ranges::find(special, prompt, &tokenizer::SpecialToken::text);
  std::vector<int32_t> ids;
  if (named != special.end()) {
    ids = {named->id};
  } else {
    MEG_ASSIGN_OR_RETURN(ids, jobs_.encode(prompt));
  }
  json strings;
  for (size_t i = 0; with_strings && i < ids.size(); ++i) {
    strings.push_back(token_or_null(tokenizer, ids[i]));
  }
  call.log.prompts = 1;
  call.log.prompt_tokens = std::ssize(ids);
  return HttpResponse{.body = written(json{{"count", ids.size()},
                                           {"max_model_len", model_.positions},
                                           {"tokens", ids},
                                           {"token_strs", strings}})};
}

Result<HttpResponse> OpenAiApi::detokenize(const HttpCall& call) {
  MEG_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::parse(call.body));
  fields.drop_nulls();
  std::string model;
  MEG_RETURN_IF_ERROR(fields.read("model", &model));
  MEG_RETURN_IF_ERROR(check_model(model));
  const json* tokens = fields.find("tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    return make_error(StatusCode::kInvalidArgument, "tokens must be a list of ids, found {}",
                      tokens == nullptr ? "none" : JsonFields::describe(*tokens));
  }
  MEG_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                       read_ids(*tokens, "tokens", jobs_.tokenizer().vocab_size()));
  MEG_ASSIGN_OR_RETURN(const std::string text, jobs_.tokenizer().decode(ids));
  return HttpResponse{.body = written(json{{"prompt", text}})};
}

Result<HttpResponse> OpenAiApi::tokenizer_info(const HttpCall&) {
  const tokenizer::Tokenizer& tokenizer = jobs_.tokenizer();
  return HttpResponse{.body = written(json{{"eos_token", token_or_null(tokenizer, tokenizer.eod())},
                                           {"bos_token", token_or_null(tokenizer, tokenizer.bos())},
                                           {"pad_token", token_or_null(tokenizer, tokenizer.pad())},
                                           {"vocab_size", tokenizer.vocab_size()},
                                           {"model_max_length", model_.positions}})};
}

}  // namespace meg::serving
