#include "libmeg/serving/openai/internal/openai_options.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/serving/openai/internal/openai_keys.h"
#include "libmeg/text/printable.h"

namespace meg::serving {
namespace {

using nlohmann::json;

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

}  // namespace

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

Status read_openai_options(const JsonFields& fields, const RequestRules& rules, int64_t vocab_size,
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

}  // namespace meg::serving
