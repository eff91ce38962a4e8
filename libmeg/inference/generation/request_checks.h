#pragma once

#include <cstdint>
#include <span>

#include "libmeg/core/status.h"
#include "libmeg/inference/generation/generation_engine.h"

namespace meg::inference {

/// What a request has to fit into.
struct RequestLimits {
  int64_t vocab_size = 0;
  int64_t positions = 0;   ///< Tokens of one text.
  int64_t max_tokens = 0;  ///< Tokens of all texts that are held at once.
};

/// kInvalidArgument for an empty prompt, kOutOfRange for ids outside of the vocabulary, a negative
/// count and a text longer than the model's positions.
Status check_length(std::span<const int32_t> prompt, int64_t tokens_to_generate,
                    const RequestLimits& limits);

/// The same for a whole request, and what check_sampling() says.
Status check_request(const GenerationRequest& request, const RequestLimits& limits);

}  // namespace meg::inference
