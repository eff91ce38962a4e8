#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"

namespace meg::tokenizer {

/// Makes the model of a vocabulary without merges, as tiktoken reads it: two neighbouring pieces
/// merge to the token that their bytes are together, the lowest id first, and a word that is a
/// token stays whole.
class RankModelBuilder {
 public:
  /// tokens: the bytes of each, the lowest rank first; their ids begin at first_id. name: for
  /// messages. kCorruption if a token is empty or repeated, or if a single byte is missing.
  static Result<BpeModel> build(const std::vector<std::string>& tokens, int32_t first_id,
                                const std::string& name);
};

}  // namespace meg::tokenizer
