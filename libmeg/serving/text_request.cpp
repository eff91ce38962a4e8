#include "libmeg/serving/text_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "libmeg/serving/internal/json_fields.h"

// Checks stand in the order of Megatron's server, so that a request with several faults is refused
// for the same one. The maxima of prompts, temperature and top_k are Megatron's; the beam's width,
// which it leaves open, is bounded here. A key that Megatron does not know is refused with the
// nearest one that it does: a misspelled option would otherwise be ignored.

namespace meg::serving {
namespace {

using nlohmann::json;

constexpr size_t kMaxPrompts = 128;
constexpr int64_t kMaxBeamWidth = 128;

constexpr std::array<std::string_view, 17> kKeys = {"prompts",       "tokens_to_generate",
                                                    "logprobs",      "temperature",
                                                    "top_k",         "top_p",
                                                    "top_p_decay",   "top_p_bound",
                                                    "add_BOS",       "stop_on_double_eol",
                                                    "stop_on_eol",   "prevent_newline_after_colon",
                                                    "random_seed",   "no_log",
                                                    "beam_width",    "stop_token",
                                                    "length_penalty"};

/// Keys of OpenAI's requests, and what to use instead.
struct OpenAiKey {
  std::string_view key, instead;
};

constexpr auto kOpenAiKeys = std::to_array<OpenAiKey>({
    {"prompt", "prompts, a list"},
    {"max_tokens", "tokens_to_generate"},
    {"max_completion_tokens", "tokens_to_generate"},
    {"seed", "random_seed"},
    {"stop", "stop_on_eol, or POST /v1/completions"},
    {"n", "a prompt several times"},
    {"model", "POST /v1/completions"},
    {"stream", "POST /v1/completions"},
    {"echo", "POST /v1/completions"},
    {"logit_bias", "POST /v1/completions"},
    {"presence_penalty", "POST /v1/completions"},
    {"frequency_penalty", "POST /v1/completions"},
    {"messages", "POST /v1/chat/completions"},
});

/// The first checks, in Megatron's order: which keys there are.
Status check_keys(const JsonFields& fields) {
  if (fields.has("max_len")) {
    return refuse("max_len is no longer supported: use tokens_to_generate instead");
  }
  if (fields.has("sentences"))
    return refuse("sentences is no longer supported: use prompts instead");
  for (const auto& [key, instead] : kOpenAiKeys) {
    if (fields.has(key)) return refuse("{} is not a key of this request: use {}", key, instead);
  }
  MEG_RETURN_IF_ERROR(fields.only_known(kKeys));
  if (!fields.has("prompts")) return refuse("prompts is required: a list of strings");
  return {};
}

Status read_prompts(const JsonFields& fields, std::vector<std::string>* prompts) {
  const json& list = *fields.find("prompts");
  if (!list.is_array()) {
    return refuse("prompts must be a list of strings, found {}", JsonFields::describe(list));
  }
  if (list.empty()) return refuse("prompts is empty: at least one string is required");
  if (list.size() > kMaxPrompts) {
    return refuse("prompts has {} strings: the maximum is {}", list.size(), kMaxPrompts);
  }
  for (const json& prompt : list) {
    if (!prompt.is_string()) {
      return refuse("prompts must be a list of strings, found {} at {}",
                    JsonFields::describe(prompt), prompts->size());
    }
    prompts->push_back(prompt.get<std::string>());
  }
  return {};
}

Status read_lengths(const JsonFields& fields, const RequestRules& rules, TextRequest* request) {
  MEG_RETURN_IF_ERROR(
      fields.read("tokens_to_generate", &request->tokens_to_generate, 0, kMaxInteger));
  if (request->tokens_to_generate > rules.max_tokens_to_generate) {
    if (fields.has("tokens_to_generate")) {
      return refuse("tokens_to_generate is {}: this server generates at most {}",
                    request->tokens_to_generate, rules.max_tokens_to_generate);
    }
    // The default is not the client's wish, so a server with a lower maximum just lowers it.
    request->tokens_to_generate = rules.max_tokens_to_generate;
  }
  MEG_RETURN_IF_ERROR(fields.read("logprobs", &request->logprobs));
  if (request->tokens_to_generate == 0 && !request->logprobs) {
    return refuse("tokens_to_generate of 0 only makes sense with logprobs true");
  }
  return {};
}

Status read_top_p(const JsonFields& fields, SamplingOptions* sampling) {
  MEG_RETURN_IF_ERROR(fields.read("top_p", &sampling->top_p));
  if (sampling->top_p < 0 || sampling->top_p > 1) {
    return refuse("top_p must be a number from 0 to 1, found {}", sampling->top_p);
  }
  if (sampling->top_p > 0 && sampling->top_k > 0) {
    return refuse("top_k and top_p cannot both be set");
  }
  // Alone they would change nothing, and the client would not learn of it.
  for (const std::string_view key : {"top_p_decay", "top_p_bound"}) {
    if (fields.has(key) && sampling->top_p == 0) return refuse("{} needs top_p", key);
  }
  MEG_RETURN_IF_ERROR(fields.read("top_p_decay", &sampling->top_p_decay));
  if (sampling->top_p_decay < 0 || sampling->top_p_decay > 1) {
    return refuse("top_p_decay must be a number from 0 to 1, found {}", sampling->top_p_decay);
  }
  MEG_RETURN_IF_ERROR(fields.read("top_p_bound", &sampling->top_p_bound));
  const bool bound = fields.has("top_p_bound");
  if (bound && (sampling->top_p_bound <= 0 || sampling->top_p_bound > sampling->top_p)) {
    return refuse("top_p_bound must be greater than 0 and at most top_p ({}), found {}",
                  sampling->top_p, sampling->top_p_bound);
  }
  return {};
}

/// top_k of a request puts a server's top_p out of use, and the other way round.
Status read_sampling(const JsonFields& fields, SamplingOptions* sampling) {
  MEG_RETURN_IF_ERROR(fields.read("temperature", &sampling->temperature));
  if (!(sampling->temperature > 0 && sampling->temperature <= kMaxTemperature)) {
    return refuse("temperature must be greater than 0 and at most {}, found {}", kMaxTemperature,
                  sampling->temperature);
  }
  if (fields.has("top_k") && !fields.has("top_p")) sampling->top_p = 0;
  if (fields.has("top_p") && !fields.has("top_k")) sampling->top_k = 0;
  MEG_RETURN_IF_ERROR(fields.read("top_k", &sampling->top_k, 0, kMaxTopK));
  return read_top_p(fields, sampling);
}

Status read_switches(const JsonFields& fields, TextRequest* request) {
  MEG_RETURN_IF_ERROR(fields.read("add_BOS", &request->add_BOS));
  const auto is_empty = [](const std::string& prompt) { return prompt.empty(); };
  if (!request->add_BOS &&
      std::any_of(request->prompts.begin(), request->prompts.end(), is_empty)) {
    return refuse("empty prompts need add_BOS true");
  }
  MEG_RETURN_IF_ERROR(fields.read("stop_on_double_eol", &request->stop.on_double_eol));
  MEG_RETURN_IF_ERROR(fields.read("stop_on_eol", &request->stop.on_eol));
  MEG_RETURN_IF_ERROR(
      fields.read("prevent_newline_after_colon", &request->prevent_newline_after_colon));
  if (fields.has("random_seed")) {
    int64_t seed = 0;
    MEG_RETURN_IF_ERROR(fields.read("random_seed", &seed, 0, kMaxInteger));
    request->random_seed = static_cast<uint64_t>(seed);
  }
  return fields.read("no_log", &request->no_log);
}

Status read_beam(const JsonFields& fields, TextRequest* request) {
  BeamRequest beam;
  MEG_RETURN_IF_ERROR(fields.read("beam_width", &beam.beam_width, 1, kMaxBeamWidth));
  if (fields.has("stop_token")) {
    int64_t token = 0;
    MEG_RETURN_IF_ERROR(fields.read("stop_token", &token, 0, std::numeric_limits<int32_t>::max()));
    beam.stop_token = static_cast<int32_t>(token);
  }
  MEG_RETURN_IF_ERROR(fields.read("length_penalty", &beam.length_penalty));
  if (!(std::abs(beam.length_penalty) <= kMaxLengthPenalty)) {
    return refuse("length_penalty must be a number from {} to {}, found {}", -kMaxLengthPenalty,
                  kMaxLengthPenalty, beam.length_penalty);
  }
  // Its other keys are checked also without it, as in Megatron's server: a wrong value is never
  // passed over.
  if (!fields.has("beam_width")) return {};
  if (request->prompts.size() > 1) {
    return refuse("beam search takes one prompt, found {}", request->prompts.size());
  }
  if (request->tokens_to_generate == 0) {
    return refuse("beam search needs tokens_to_generate of at least 1");
  }
  request->beam = beam;
  return {};
}

}  // namespace

Result<TextRequest> read_text_request(std::string_view body, const RequestRules& rules) {
  MEG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::parse(body));
  TextRequest request;
  request.sampling = rules.sampling;
  MEG_RETURN_IF_ERROR(check_keys(fields));
  MEG_RETURN_IF_ERROR(read_prompts(fields, &request.prompts));
  MEG_RETURN_IF_ERROR(read_lengths(fields, rules, &request));
  MEG_RETURN_IF_ERROR(read_sampling(fields, &request.sampling));
  MEG_RETURN_IF_ERROR(read_switches(fields, &request));
  MEG_RETURN_IF_ERROR(read_beam(fields, &request));
  return request;
}

}  // namespace meg::serving
