#pragma once

#include <string_view>
#include <vector>

#include "libmeg/tokenizer/models/internal/sentencepiece/reference/segment.h"

namespace meg::tokenizer::sentencepiece::reference {

/// The segments of the largest sum of scores, added in float from left to right as the library
/// does: ids hang on its rounding.
std::vector<Segment> viterbi(const Model& model, std::string_view normalized);

}  // namespace meg::tokenizer::sentencepiece::reference
