#pragma once

#include <string>
#include <string_view>

#include "libmeg/tokenizer/models/internal/sentencepiece/model.h"

namespace meg::tokenizer::sentencepiece::reference {

/// The normalized form of a text, which encoders divide into pieces.
/// Mirrors google/sentencepiece src/normalizer.cc: Normalizer::Normalize.
std::string normalize(const Model& model, std::string_view text);

/// Denormalizes a decoded text; only for models with a denormalizer.
std::string denormalize(const Model& model, std::string_view text);

}  // namespace meg::tokenizer::sentencepiece::reference
