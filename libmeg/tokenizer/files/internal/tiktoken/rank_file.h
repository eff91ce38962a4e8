#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::tokenizer {

/// Reads the bytes of a vocabulary's tokens, by rank, from a `.tiktoken` file (lines of base64 and
/// rank) or from Megatron-LM's JSON (a list of {"rank", "token_bytes", "token_str"}), which the
/// first character tells apart. name: the file's, for errors. kCorruption, with the line or the
/// entry, for anything else, for invalid base64, and for ranks that are not 0, 1, 2, ... in this
/// order.
Result<std::vector<std::string>> read_rank_file(std::string_view text, const std::string& name);

}  // namespace meg::tokenizer
