#include "libmeg/generation/internal/running_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "libmeg/generation/internal/forbidden_tokens.h"
#include "libmeg/generation/internal/token_scores.h"

namespace meg::generation {

std::string token_name(std::span<const int32_t> tokens) {
  return fmt::format("token {}", tokens.size());
}

RunningText::RunningText(serving::GenerationRequest asked, int64_t taken_slot)
    : request(std::move(asked)), slot(taken_slot), sampler(request.sampling) {
  answer.tokens = std::move(request.prompt);
  answer.prompt_size = answer.tokens.size();
  length = static_cast<int64_t>(answer.tokens.size()) + request.tokens_to_generate;
}

bool RunningText::weighs_tokens() const {
  return !request.logit_bias.empty() || request.presence_penalty != 0 ||
         request.frequency_penalty != 0;
}

/// Adds the request's bias and penalties.
void RunningText::weigh_tokens(std::span<float> logits) const {
  const auto add = [&](int32_t token, double change) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = static_cast<float>(double{logit} + change);
  };
  for (const auto& [token, bias] : request.logit_bias) add(token, bias);
  if (request.presence_penalty == 0 && request.frequency_penalty == 0) return;
  std::map<int32_t, int64_t> counts;
  for (size_t i = answer.prompt_size; i < answer.tokens.size(); ++i) ++counts[answer.tokens[i]];
  for (const auto& [token, count] : counts) {
    add(token, -request.presence_penalty - static_cast<double>(count) * request.frequency_penalty);
  }
}

/// The logits from which the request wants its token drawn; empty where they are as they were.
std::vector<float> RunningText::changed(std::span<const float> logits,
                                        const NewlineAfterColon& newline) const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::vector<int32_t> forbidden = forbidden_tokens(request, answer.tokens, newline);
  if (forbidden.empty() && !weighs_tokens()) return {};
  std::vector<float> weighed(logits.begin(), logits.end());
  weigh_tokens(weighed);
  if (forbidden.empty()) return weighed;
  std::vector<float> kept = weighed;
  for (const int32_t id : forbidden) kept[static_cast<size_t>(id)] = kNever;
  const bool is_empty = std::ranges::all_of(kept, [](float logit) { return logit == kNever; });
  return is_empty ? weighed : kept;
}

bool RunningText::takes_most_likely() const {
  return sampler.is_greedy() && !request.logprobs && !weighs_tokens() && !forbids_tokens(request);
}

void RunningText::score_up_to(size_t place) {
  answer.logprobs.resize(place - 1);
  if (request.top_logprobs > 0) answer.top_logprobs.resize(place - 1);
}

void RunningText::score(size_t place, std::span<const float> logits) {
  const double sum = log_sum_exp(logits);
  answer.logprobs[place - 1] = log_probability(logits, sum, answer.tokens[place]);
  if (request.top_logprobs == 0) return;
  answer.top_logprobs[place - 1] = top_log_probabilities(logits, sum, request.top_logprobs);
}

void RunningText::report(serving::GenerationEvent& event) {
  const auto since = static_cast<ptrdiff_t>(reported_);
  event.logprobs.assign(answer.logprobs.begin() + since, answer.logprobs.end());
  if (request.top_logprobs > 0) {
    event.top_logprobs.assign(answer.top_logprobs.begin() + since, answer.top_logprobs.end());
  }
  reported_ = answer.logprobs.size();
}

void RunningText::extend(std::span<const float> logits, const NewlineAfterColon& newline) {
  const std::vector<float> other = changed(logits, newline);
  answer.tokens.push_back(sampler.draw(other.empty() ? logits : std::span<const float>(other)));
  if (!request.logprobs) return;
  score_up_to(answer.tokens.size());
  score(answer.tokens.size() - 1, logits);
}

}  // namespace meg::generation
