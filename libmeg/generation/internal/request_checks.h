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
  int64_t max_beam_tokens = 0;  ///< The same of all texts that beam searches hold.
};

/// Tokens that a request may come to hold: with a beam search those of all its texts.
int64_t max_tokens(const serving::GenerationRequest& request);

/// kInvalidArgument for an empty prompt and options that do not go together; kOutOfRange for ids
/// outside of the vocabulary, counts outside of their range, a text longer than the model's
/// positions and more tokens than may be held; what check_sampling() says.
Status check_request(const serving::GenerationRequest& request, const RequestLimits& limits);

}  // namespace meg::generation
