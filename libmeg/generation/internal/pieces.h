#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/generation/internal/running_text.h"
#include "libmeg/nn/operators/few_rows_linear.h"

namespace meg::generation {

/// A CPU reads prompts in pieces that begin at multiples of this many tokens, whatever else a step
/// has to do. Then what comes of a prompt is the same to the bit beside any other texts: attention
/// sees in each piece as many queries and keys, and few_rows_linear() keeps rows apart. Pieces of
/// any size beyond it are not faster (docs/performance/inference.md).
constexpr int64_t kPiece = nn::kFewRows;

/// Tokens of a text that go through the model together.
struct Piece {
  RunningText* text;
  int64_t held;  ///< Tokens before them.
  int64_t count;

  /// Whether the text's next token comes after them.
  bool is_last() const { return held + count == std::ssize(text->answer.tokens); }
};

/// Which pieces go through the model together, with at most max_rows tokens in all unless there is
/// only one, and those of one text after each other. max_rows 0: all of them.
std::vector<std::vector<Piece>> parts_of(std::span<const Piece> pieces, int64_t max_rows);

}  // namespace meg::generation
