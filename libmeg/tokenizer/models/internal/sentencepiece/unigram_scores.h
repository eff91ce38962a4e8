#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "libmeg/tokenizer/models/internal/sentencepiece/model_file.h"

namespace meg::tokenizer::sentencepiece {

/// Sums beyond this are moved back to 0, so that rounding stays small.
inline constexpr float kScoreLimit = 100000;

/// What a used piece counts: a user-defined symbol more than any normal piece, a long one more than
/// its parts.
inline float score_of(const Piece& piece) {
  if (piece.type != PieceType::kUserDefined) return piece.score;
  return static_cast<float>(0.1 * (static_cast<int>(piece.text.size()) - 1));
}

/// What an unknown character counts: less than any piece.
inline float score_of_unknown(const std::vector<Piece>& pieces) {
  constexpr float kPenalty = 10;
  float lowest = std::numeric_limits<float>::max();
  for (const Piece& piece : pieces) {
    if (piece.type == PieceType::kNormal) lowest = std::min(lowest, piece.score);
  }
  return lowest - kPenalty;
}

}  // namespace meg::tokenizer::sentencepiece
