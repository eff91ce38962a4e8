#pragma once

#include <memory>

#include "libmeg/tokenizer/steps/internal/normalizer.h"

namespace meg::tokenizer {

/// NFC (composed), NFD (neither), NFKC (both) or NFKD (compatible), of the Unicode version that
/// `tokenizers` normalizes by.
std::unique_ptr<Normalizer> new_unicode_form(bool composed, bool compatible);

}  // namespace meg::tokenizer
