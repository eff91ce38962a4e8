#pragma once

#include <memory>
#include <string>

#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::tokenizer {

/// An encoder that turns each occurrence of `special_token` (not empty) in a text into `id`, and
/// encodes the parts between them, each for itself, with `parts`. Parts that are empty are left
/// out. Mirrors how Hugging Face's tokenizers, and so Megatron core since 0.15, treat special
/// tokens.
std::unique_ptr<TokenEncoder> new_special_token_encoder(std::unique_ptr<TokenEncoder> parts,
                                                        std::string special_token, int32_t id);

}  // namespace meg::tokenizer
