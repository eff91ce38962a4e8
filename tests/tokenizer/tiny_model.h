#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"
#include "libmeg/tokenizer/models/internal/bpe/byte_alphabet.h"

namespace meg::test {

/// A vocab.json: the 256 bytes have their values as ids, `more` follows from 256 on.
/// Strings must need no JSON escapes.
inline std::string vocab_json(const std::vector<std::string>& more) {
  std::string json = "{";
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    text::append_code_point(tokenizer::byte_character(static_cast<uint8_t>(byte)), text);
    if (text == "\"" || text == "\\") text.insert(0, "\\");
    json += fmt::format("{}\"{}\": {}", byte == 0 ? "" : ", ", text, byte);
  }
  int id = 256;
  for (const std::string& text : more) json += fmt::format(", \"{}\": {}", text, id++);
  return json + "}";
}

inline Result<tokenizer::BpeModel> parse_model(std::string_view vocab, std::string_view merges) {
  return tokenizer::BpeModel::parse(vocab, "vocab.json", merges, "merges.txt");
}

}  // namespace meg::test
