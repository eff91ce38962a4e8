#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/generation/internal/pieces.h"
#include "libmeg/generation/internal/running_text.h"
#include "libmeg/serving/generation_engine.h"

namespace meg::generation {

/// What a slot of the cache holds of a prompt, whole pieces of it, also after the text has ended:
/// texts that begin with the same tokens need not read them.
struct HeldPrompt {
  std::vector<int32_t> tokens;
  std::vector<at::Tensor> ends;  ///< The hidden state of each piece's last token.
  int64_t scored = 0;            ///< The pieces of which these are known:
  std::vector<float> logprobs;   ///< Of all tokens but the first.
  std::vector<std::vector<serving::TokenLogprob>> top_logprobs;
  int64_t alternatives = 0;  ///< In each of top_logprobs.

  void cut(int64_t pieces);

  /// How many of its pieces a text can begin with, leaving at least one token to be read.
  int64_t shared_pieces(std::span<const int32_t> prompt,
                        const serving::GenerationRequest& request) const;

  /// Notes the whole pieces that the slot now holds. states: of the piece.
  void note(const Piece& piece, const at::Tensor& states);

  /// Gives a text the log probabilities of its first `length` tokens, as many as whole pieces have,
  /// which are scored.
  void recall(RunningText& text, int64_t length) const;
};

}  // namespace meg::generation
