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

  /// Whether tokens of the prompt are not among the first `held` ones.
  bool is_reading(int64_t held) const { return held < static_cast<int64_t>(answer.prompt_size); }

  /// Sets the log probabilities of the token at `place`, at least 1, from the logits before it.
  /// Calls for different places of which score_up_to() has said that they come may run at once.
  void score(size_t place, std::span<const float> logits);

  /// Makes room for the log probabilities of tokens before `place`; forgets later ones.
  void score_up_to(size_t place);

  /// What log probabilities have been added since the last call.
  void report(serving::GenerationEvent& event);

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
  bool weighs_tokens() const;
  void weigh_tokens(std::span<float> logits) const;
  std::vector<float> changed(std::span<const float> logits, const NewlineAfterColon& newline) const;

  size_t reported_ = 0;  ///< Log probabilities.
};

}  // namespace meg::generation
