#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"

namespace meg::tokenizer {

/// Opens the tokenizer of --vocab-size, whose texts are ids: decimal numbers separated by single
/// spaces.
/// Mirrors Megatron-LM megatron/core/tokenizers/text/libraries/null_tokenizer.py: NullTokenizer.
Result<std::unique_ptr<Tokenizer>> open_null(const TokenizerOptions& options);

}  // namespace meg::tokenizer
