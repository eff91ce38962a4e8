#pragma once

#include <map>
#include <string_view>

#include "libmeg/megatron/field_reader.h"
#include "libmeg/tokenizer/open_tokenizer.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

/// What the tokenizer flags say where none is given.
tokenizer::TokenizerOptions default_tokenizer();

/// Fields of args that only shape tokenizers which open_tokenizer refuses, each with the reason why
/// it makes no difference to others.
std::map<std::string_view, std::string_view> tokenizer_idle_fields();

/// Megatron's arguments of a tokenizer, by their fields.
void read_tokenizer_args(megatron::FieldReader& args, tokenizer::TokenizerOptions& tokenizer);

}  // namespace meg::tools
