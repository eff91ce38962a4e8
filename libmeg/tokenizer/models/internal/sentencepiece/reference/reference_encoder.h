#pragma once

#include <memory>

#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/model.h"

namespace meg::tokenizer::sentencepiece::reference {

/// Encoder by normalize() and segments(). dtype: kUint16 (where every id fits) or kInt32. model
/// must outlive the encoder.
std::unique_ptr<TokenEncoder> new_reference_encoder(const Model& model, DType dtype);

}  // namespace meg::tokenizer::sentencepiece::reference
