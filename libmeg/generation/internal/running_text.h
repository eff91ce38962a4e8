#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libmeg/generation/internal/sampling.h"
#include "libmeg/generation/internal/stop_rules.h"
#include "libmeg/serving/generation_engine.h"

namespace meg::generation {

/// For errors: the token that follows `tokens`.
std::string token_name(std::span<const int32_t> tokens);

/// A request under way.
struct RunningText {
  /// slot: of the cache.
  RunningText(serving::GenerationRequest asked, int64_t taken_slot);

  bool is_full() const { return static_cast<int64_t>(answer.tokens.size()) == length; }

  /// Draws the next token from the logits after the last one, over the true vocabulary, except
  /// tokens that the request forbids; if it forbids all, none is excluded.
  void extend(std::span<const float> logits, const NewlineAfterColon& newline);

  /// Whether extend() would only need the most likely token.
  bool takes_most_likely() const;

  serving::GenerationRequest request;  ///< Its prompt is in the answer.
  int64_t slot;
  Sampler sampler;
  serving::GeneratedText answer;
  int64_t length;  ///< Maximum number of tokens.
  Status failure;  ///< Why it cannot be continued.

 private:
  std::vector<float> allowed(std::span<const float> logits, const NewlineAfterColon& newline) const;
};

}  // namespace meg::generation
