#pragma once

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/files/internal/huggingface/tokenizer_json.h"
#include "libmeg/tokenizer/json/internal/json_part.h"

namespace meg::tokenizer {

/// Reads the part "model" of a tokenizer.json into file, whose pre-tokenizer was read before.
/// kUnsupported, by name, for a kind or a setting that libmeg lacks.
Status read_model(const JsonPart& part, TokenizerJson& file);

}  // namespace meg::tokenizer
