#pragma once

#include <memory>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/steps/internal/normalizer.h"

namespace meg::tokenizer {

/// The normalizer "Precompiled": the rules of a SentencePiece model (`precompiled_charsmap`), which
/// `tokenizers` applies to whole graphemes where these are short.
/// Mirrors Hugging Face tokenizers, normalizers/precompiled.rs.
Result<std::unique_ptr<Normalizer>> read_precompiled(const JsonPart& part);

}  // namespace meg::tokenizer
