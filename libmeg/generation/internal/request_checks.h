#pragma once

#include <cstdint>
#include <span>

#include "libmeg/base/status.h"
#include "libmeg/serving/generation_engine.h"

namespace meg::generation {

/// What a request has to fit into.
struct RequestLimits {
  int64_t vocab_size = 0;
  int64_t positions = 0;        ///< Tokens of one text.
  int64_t max_tokens = 0;       ///< Tokens of all texts that are held at once.
  int64_t max_beam_tokens = 0;  ///< The same for the texts of beam searches.
};

/// The maximum number of tokens of a request; for a beam search, of all its texts.
int64_t max_tokens(const serving::GenerationRequest& request);

/// kInvalidArgument for an empty prompt and options that contradict each other; kOutOfRange for ids
/// outside the vocabulary, counts out of range, a text longer than the model's positions, and too
/// many tokens; the errors of check_sampling().
Status check_request(const serving::GenerationRequest& request, const RequestLimits& limits);

}  // namespace meg::generation
