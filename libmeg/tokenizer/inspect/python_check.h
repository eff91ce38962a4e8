#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"

namespace meg::tokenizer {

/// A shell command of one line that asks the Python package behind a tokenizer (tokenizers,
/// transformers, tiktoken, sentencepiece) for the ids of text and prints `equal`, or `different:`
/// and the package's ids. ids: libmeg's. kUnsupported if no package does what Megatron does with
/// the options.
Result<std::string> python_check(const TokenizerOptions& options, std::string_view text,
                                 std::span<const int32_t> ids);

}  // namespace meg::tokenizer
