#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "libmeg/tokenizer/open_tokenizer.h"
#include "libmeg/tokenizer/tokenizer.h"

namespace meg::tokenizer {

/// Of --vocab-size: a text is ids, written as decimal numbers with single spaces between.
/// Mirrors Megatron-LM megatron/core/tokenizers/text/libraries/null_tokenizer.py: NullTokenizer.
Result<std::unique_ptr<Tokenizer>> open_null(const TokenizerOptions& options);

}  // namespace meg::tokenizer
