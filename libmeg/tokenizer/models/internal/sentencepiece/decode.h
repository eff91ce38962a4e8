#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "libmeg/tokenizer/models/internal/sentencepiece/model.h"

namespace meg::tokenizer::sentencepiece {

/// The text of pieces, or with more_follow what of it stays whatever pieces come after them.
/// ids: of the model's pieces.
/// Mirrors google/sentencepiece 0.2.3 src/sentencepiece_processor.cc: DecodeOptimized.
std::string decode(const Model& model, std::span<const int32_t> ids, bool more_follow);

/// What a piece adds to a text that has begun: nothing for control pieces, the byte of a byte
/// piece.
std::string bytes_of(const Model& model, const Piece& piece);

}  // namespace meg::tokenizer::sentencepiece
