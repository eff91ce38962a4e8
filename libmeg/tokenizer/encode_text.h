#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/tokenizer.h"

namespace meg::tokenizer {

/// The ids of one text, which may end anywhere: the padding that encoders ask for is made here.
/// encoder: for DType::kInt32. text: valid UTF-8. Errors: encoder.encode's.
Result<std::vector<int32_t>> encode_text(TokenEncoder& encoder, std::string_view text);

}  // namespace meg::tokenizer
