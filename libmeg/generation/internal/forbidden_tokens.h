#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/generation/internal/stop_rules.h"
#include "libmeg/serving/generation_engine.h"

namespace meg::generation {

/// Whether a request ever makes forbidden_tokens() name some.
bool forbids_tokens(const serving::GenerationRequest& request);

/// The tokens that a request forbids after `tokens`, which must not be empty; some may be repeated.
std::vector<int32_t> forbidden_tokens(const serving::GenerationRequest& request,
                                      std::span<const int32_t> tokens,
                                      const NewlineAfterColon& newline);

}  // namespace meg::generation
