#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::tokenizer::wordpiece {

/// A vocab.txt: a token a line, the first line's id is 0.
struct VocabularyLines {
  std::vector<std::string> tokens;  ///< by id, without whitespace around them
  std::unordered_map<std::string, int32_t> ids;
  std::optional<int64_t> first_stripped_line;  ///< From 1: had whitespace around its token.

  /// text: the file's; LF, CRLF and a lone CR end a line. name: the file's, for errors. kCorruption
  /// if it is empty or not UTF-8, or if a token occurs twice (an empty one included: Megatron gives
  /// the added tokens of such a file ids that others have).
  static Result<VocabularyLines> parse(std::string_view text, const std::string& name);

  /// kCorruption if one of [CLS], [SEP], [PAD], [MASK] and [UNK] is missing.
  Status check_special_tokens(const std::string& name) const;

  /// Every token with its id; views of `tokens`.
  std::vector<std::pair<std::string_view, int32_t>> entries() const;

  /// Appends a token, unless it is there already; returns its id.
  int32_t add(const std::string& token);
};

}  // namespace meg::tokenizer::wordpiece
