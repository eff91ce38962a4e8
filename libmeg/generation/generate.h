#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "libmeg/serving/generation_engine.h"

namespace meg::generation {

/// How far generate() has come.
struct GenerationProgress {
  int64_t finished = 0;  ///< Texts.
  int64_t texts = 0;     ///< In all.
  int64_t tokens = 0;    ///< Made so far.
};

/// Called after every step. Returning false ends the work with kCancelled.
using GenerationProgressCallback = std::function<bool(const GenerationProgress&)>;

/// Completes all texts, as many at a time as the engine has room for; answers in their order.
/// The engine has no other requests. Errors: the engine's; where a request is wrong nothing is
/// made, and the message begins with its number.
Result<std::vector<serving::GeneratedText>> generate(
    serving::GenerationEngine& engine, std::vector<serving::GenerationRequest> requests,
    const GenerationProgressCallback& progress = nullptr);

}  // namespace meg::generation
