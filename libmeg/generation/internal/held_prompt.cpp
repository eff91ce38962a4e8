#include "libmeg/generation/internal/held_prompt.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace meg::generation {

void HeldPrompt::cut(int64_t pieces) {
  tokens.resize(static_cast<size_t>(pieces * kPiece));
  ends.resize(static_cast<size_t>(pieces));
  scored = std::min(scored, pieces);
}

int64_t HeldPrompt::shared_pieces(std::span<const int32_t> prompt,
                                  const serving::GenerationRequest& request) const {
  if (request.logprobs && request.top_logprobs > alternatives) return 0;
  const int64_t most =
      std::min(request.logprobs ? scored : std::ssize(ends), (std::ssize(prompt) - 1) / kPiece);
  const auto [end, _] = std::ranges::mismatch(tokens, prompt);
  return std::min(most, (end - tokens.begin()) / kPiece);
}

void HeldPrompt::note(const Piece& piece, const at::Tensor& states) {
  const RunningText& text = *piece.text;
  const auto is_scored = [&] { return scored == std::ssize(ends); };
  const bool scores = text.request.logprobs && text.failure.ok() && is_scored();
  while (std::ssize(tokens) + kPiece <= piece.held + piece.count) {
    const auto begin = text.answer.tokens.begin() + std::ssize(tokens);
    tokens.insert(tokens.end(), begin, begin + kPiece);
    // A copy: a view would keep the states of all tokens.
    ends.push_back(states[std::ssize(tokens) - 1 - piece.held].clone());
    if (scores) ++scored;
  }
  if (!scores) return;
  const auto known = std::max<ptrdiff_t>(std::ssize(tokens) - 1, 0);
  logprobs.assign(text.answer.logprobs.begin(), text.answer.logprobs.begin() + known);
  alternatives = text.request.top_logprobs;
  if (alternatives == 0) return;
  top_logprobs.assign(text.answer.top_logprobs.begin(), text.answer.top_logprobs.begin() + known);
}

void HeldPrompt::recall(RunningText& text, int64_t length) const {
  text.score_up_to(static_cast<size_t>(length) + 1);
  std::copy_n(logprobs.begin(), length - 1, text.answer.logprobs.begin());
  const auto most = static_cast<size_t>(text.request.top_logprobs);
  for (size_t i = 0; most > 0 && i + 1 < static_cast<size_t>(length); ++i) {
    text.answer.top_logprobs[i] = top_logprobs[i];
    if (top_logprobs[i].size() > most) text.answer.top_logprobs[i].resize(most);
  }
}

}  // namespace meg::generation
