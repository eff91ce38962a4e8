#pragma once

#include "libmeg/megatron/field_reader.h"
#include "libmeg/tokenizer/open_tokenizer.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

/// What the tokenizer flags say where none is given.
tokenizer::TokenizerOptions default_tokenizer();

/// Megatron's arguments of a tokenizer, by their fields.
void read_tokenizer_args(megatron::FieldReader& args, tokenizer::TokenizerOptions& tokenizer);

}  // namespace meg::tools
