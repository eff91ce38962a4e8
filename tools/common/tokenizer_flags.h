#pragma once

#include "libmeg/tokenizer/open_tokenizer.h"
#include "tools/common/flags.h"

namespace meg::tools {

/// What the tokenizer flags say where none is given.
TokenizerOptions default_tokenizer();

/// Declares the flags that open_tokenizer reads, in the group that is open.
void declare_tokenizer_flags(Flags& flags, TokenizerOptions& tokenizer);

}  // namespace meg::tools
