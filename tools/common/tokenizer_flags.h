#pragma once

#include "libmeg/tokenizer/open_tokenizer.h"
#include "tools/common/flags.h"

namespace meg::tools {

/// What the tokenizer flags say where none is given.
TokenizerOptions default_tokenizer();

/// Declares --vocab-file, --merge-file, --tokenizer-model and --vocab-size, in the group that is
/// open.
void declare_tokenizer_files(Flags& flags, TokenizerOptions& tokenizer);

/// The same and --tokenizer-type: all that open_tokenizer reads.
void declare_tokenizer_flags(Flags& flags, TokenizerOptions& tokenizer);

}  // namespace meg::tools
