#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/generation/internal/sampling.h"
#include "libmeg/generation/internal/stop_rules.h"
#include "libmeg/serving/generation_engine.h"

namespace meg::generation {

/// A request under way.
struct RunningText {
  /// slot: of the cache.
  RunningText(serving::GenerationRequest asked, int64_t taken_slot);

  bool is_full() const { return static_cast<int64_t>(answer.tokens.size()) == length; }

  /// Draws the next token from the logits behind the last one, over the true vocabulary, without
  /// those that the request forbids; where it forbids all, none is. Throws std::runtime_error where
  /// the logits are not numbers.
  void extend(std::span<const float> logits, const NewlineAfterColon& newline);

  /// Whether the most likely token is all that extend() would ask of the logits.
  bool takes_most_likely() const;

  /// Appends a token. Throws std::runtime_error for -1: the logits were not numbers.
  void append(int32_t token);

  serving::GenerationRequest request;  ///< Its prompt is in the answer.
  int64_t slot;
  Sampler sampler;
  serving::GeneratedText answer;
  int64_t length;  ///< Tokens that it may come to.

 private:
  std::vector<float> allowed(std::span<const float> logits, const NewlineAfterColon& newline) const;
};

}  // namespace meg::generation
