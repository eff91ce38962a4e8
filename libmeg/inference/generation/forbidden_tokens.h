#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/inference/generation/generation_engine.h"
#include "libmeg/inference/generation/stop_rules.h"

namespace meg::inference {

/// Whether a request ever makes forbidden_tokens() name some.
bool forbids_tokens(const GenerationRequest& request);

/// The tokens that a request does not want behind `tokens`, which are not empty; some may come more
/// than once.
std::vector<int32_t> forbidden_tokens(const GenerationRequest& request,
                                      std::span<const int32_t> tokens,
                                      const NewlineAfterColon& newline);

}  // namespace meg::inference
