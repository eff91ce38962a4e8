#include "libmeg/generation/internal/token_scores.h"

#include <cmath>

#include "libmeg/kernels/cpu/cpu_loops.h"

namespace meg::generation {

double log_sum_exp(std::span<const float> logits) {
  const auto& loops = kernels::cpu_loops(best_instruction_set());
  const auto count = static_cast<int64_t>(logits.size());
  const float largest = loops.maximum(logits.data(), count);
  return double{largest} + std::log(loops.sum_exp(logits.data(), largest, count));
}

double log_probability(std::span<const float> logits, int32_t token) {
  return double{logits[static_cast<size_t>(token)]} - log_sum_exp(logits);
}

}  // namespace meg::generation
