#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "libmeg/serving/generation_engine.h"

namespace meg::generation {

/// A token that a step has made.
struct GeneratedToken {
  size_t text;  ///< Place among the requests.
  int32_t token;
};

/// The progress of generate().
struct GenerationProgress {
  int64_t finished = 0;                          ///< Texts.
  int64_t texts = 0;                             ///< In all.
  int64_t tokens = 0;                            ///< Made so far.
  std::vector<GeneratedToken> step_tokens = {};  ///< Of the last step; none for beam searches.
};

/// Called after every step. Returning false ends the work with kCancelled.
using GenerationProgressCallback = std::function<bool(const GenerationProgress&)>;

/// Completes all texts, as many at a time as the engine has room for; answers in their order.
/// The engine has no other requests. Errors: the engine's; the message begins with the number of
/// the text that has failed; if a request is invalid, nothing is generated.
Result<std::vector<serving::GeneratedText>> generate(
    serving::GenerationEngine& engine, std::vector<serving::GenerationRequest> requests,
    const GenerationProgressCallback& progress = nullptr);

}  // namespace meg::generation
