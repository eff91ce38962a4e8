#pragma once

#include <memory>
#include <vector>

#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::tokenizer::sentencepiece {

/// Cuts special tokens out of texts: always the one that begins first, of those that begin together
/// the first of the list; the parts between are texts of their own. parts: encodes these.
std::unique_ptr<TokenEncoder> new_special_tokens_encoder(std::unique_ptr<TokenEncoder> parts,
                                                         std::vector<SpecialToken> tokens);

/// Puts `id` in front of every text.
std::unique_ptr<TokenEncoder> new_bos_encoder(std::unique_ptr<TokenEncoder> text, int32_t id);

}  // namespace meg::tokenizer::sentencepiece
