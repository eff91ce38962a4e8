#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/serving/generation_engine.h"

namespace meg::generation {

/// What turns the logits of one position into log probabilities: log of the sum of e^logit.
double log_sum_exp(std::span<const float> logits);

/// log p of a token given its position's logits over the true vocabulary, and their log_sum_exp().
float log_probability(std::span<const float> logits, double log_sum_exp, int32_t token);

/// The most likely tokens, the best first and of equal ones the first, as log_probability() has
/// them. count: at least 1; fewer where the vocabulary has fewer.
std::vector<serving::TokenLogprob> top_log_probabilities(std::span<const float> logits,
                                                         double log_sum_exp, int64_t count);

}  // namespace meg::generation
