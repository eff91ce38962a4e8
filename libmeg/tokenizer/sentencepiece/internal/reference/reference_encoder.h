#pragma once

#include <memory>

#include "libmeg/tokenizer/sentencepiece/internal/model.h"
#include "libmeg/tokenizer/tokenizer.h"

namespace meg::tokenizer::sentencepiece::reference {

/// Encoder by normalize() and segments(). dtype: kUint16 (where every id fits) or kInt32. model
/// must outlive the encoder.
std::unique_ptr<TokenEncoder> new_reference_encoder(const Model& model, DType dtype);

}  // namespace meg::tokenizer::sentencepiece::reference
