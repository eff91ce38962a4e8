#pragma once

#include <string_view>
#include <vector>

#include "libmeg/tokenizer/models/internal/sentencepiece/reference/segment.h"

namespace meg::tokenizer::sentencepiece::reference {

/// The segments that remain when, as long as two neighbours together are a piece, those of the
/// highest score are joined, the first ones where scores are equal. An unused piece is taken apart
/// again into the two that were neighbours last.
std::vector<Segment> merge(const Model& model, std::string_view normalized);

}  // namespace meg::tokenizer::sentencepiece::reference
