#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"

namespace meg::tokenizer::reference {

/// An encoder that is plain rather than fast: the fast ones must give its ids.
/// model is borrowed; dtype as in Tokenizer::new_encoder.
/// first_word_size: bytes of the first word of a text that is valid UTF-8 and not empty.
std::unique_ptr<TokenEncoder> new_reference_encoder(
    const BpeModel& model, DType dtype,
    std::function<size_t(std::string_view text)> first_word_size);

}  // namespace meg::tokenizer::reference
