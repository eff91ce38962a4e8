#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::tokenizer {

/// The ids of one text, without requirements on its end: this function adds the padding that
/// encoders need. encoder: for DType::kInt32. text: valid UTF-8. Errors: encoder.encode's.
Result<std::vector<int32_t>> encode_text(TokenEncoder& encoder, std::string_view text);

}  // namespace meg::tokenizer
