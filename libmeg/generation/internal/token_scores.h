#pragma once

#include <cstdint>
#include <span>

namespace meg::generation {

/// What turns the logits of one position into log probabilities: log of the sum of e^logit.
double log_sum_exp(std::span<const float> logits);

/// log p of a token given its position's logits over the true vocabulary.
double log_probability(std::span<const float> logits, int32_t token);

}  // namespace meg::generation
