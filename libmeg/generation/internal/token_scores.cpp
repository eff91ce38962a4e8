#include "libmeg/generation/internal/token_scores.h"

#include <algorithm>
#include <cmath>

#include "libmeg/kernels/cpu/cpu_loops.h"

namespace meg::generation {

double log_sum_exp(std::span<const float> logits) {
  const auto& loops = kernels::cpu_loops(best_instruction_set());
  const auto count = static_cast<int64_t>(logits.size());
  const float largest = loops.maximum(logits.data(), count);
  return double{largest} + std::log(loops.sum_exp(logits.data(), largest, count));
}

float log_probability(std::span<const float> logits, double log_sum_exp, int32_t token) {
  return static_cast<float>(double{logits[static_cast<size_t>(token)]} - log_sum_exp);
}

std::vector<serving::TokenLogprob> top_log_probabilities(std::span<const float> logits,
                                                         double log_sum_exp, int64_t count) {
  // Nearly every logit fails the comparison with the last one held: one pass at the speed of
  // memory.
  std::vector<int32_t> best;
  for (size_t i = 0; i < logits.size(); ++i) {
    const bool is_full = std::ssize(best) == count;
    if (is_full && logits[i] <= logits[static_cast<size_t>(best.back())]) continue;
    if (is_full) best.pop_back();
    const auto place = std::ranges::find_if(
        best, [&](int32_t id) { return logits[i] > logits[static_cast<size_t>(id)]; });
    best.insert(place, static_cast<int32_t>(i));
  }
  std::vector<serving::TokenLogprob> top;
  for (const int32_t id : best) top.push_back({id, log_probability(logits, log_sum_exp, id)});
  return top;
}

}  // namespace meg::generation
