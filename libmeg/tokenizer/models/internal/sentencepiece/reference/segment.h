#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/models/internal/sentencepiece/model.h"

namespace meg::tokenizer::sentencepiece::reference {

/// A part of a normalized text that is one piece, or unknown.
struct Segment {
  static constexpr int32_t kUnknown = -1;

  std::string_view text;
  int32_t id;
};

/// The segments of a normalized text by the model's type, the plain way.
/// Mirrors google/sentencepiece 0.2.3 src/unigram_model.cc: Model::EncodeOptimized,
/// src/bpe_model.cc: Model::SampleEncode, src/word_model.cc and src/char_model.cc.
std::vector<Segment> segments(const Model& model, std::string_view normalized);

}  // namespace meg::tokenizer::sentencepiece::reference
