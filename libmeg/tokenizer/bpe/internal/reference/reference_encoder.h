#pragma once

#include <memory>

#include "libmeg/tokenizer/bpe/internal/bpe_model.h"
#include "libmeg/tokenizer/tokenizer.h"

namespace meg::tokenizer::reference {

/// An encoder that is plain rather than fast: the fast ones must give its ids.
/// model is borrowed; dtype as in Tokenizer::new_encoder.
std::unique_ptr<TokenEncoder> new_reference_encoder(const BpeModel& model, DType dtype);

}  // namespace meg::tokenizer::reference
