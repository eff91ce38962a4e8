#include "libmeg/generation/internal/running_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
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

/// The logits without tokens that must not come; empty where all may.
std::vector<float> RunningText::allowed(std::span<const float> logits,
                                        const NewlineAfterColon& newline) const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::vector<int32_t> forbidden = forbidden_tokens(request, answer.tokens, newline);
  if (forbidden.empty()) return {};
  std::vector<float> kept(logits.begin(), logits.end());
  for (const int32_t id : forbidden) kept[static_cast<size_t>(id)] = kNever;
  const bool is_empty = std::ranges::all_of(kept, [](float logit) { return logit == kNever; });
  return is_empty ? std::vector<float>() : kept;
}

bool RunningText::takes_most_likely() const {
  return sampler.is_greedy() && !request.logprobs && !forbids_tokens(request);
}

void RunningText::extend(std::span<const float> logits, const NewlineAfterColon& newline) {
  const std::vector<float> kept = allowed(logits, newline);
  const int32_t token = sampler.draw(kept.empty() ? logits : std::span<const float>(kept));
  answer.tokens.push_back(token);
  if (!request.logprobs) return;
  answer.logprobs.push_back(static_cast<float>(log_probability(logits, token)));
}

}  // namespace meg::generation
