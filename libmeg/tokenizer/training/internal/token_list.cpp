#include "libmeg/tokenizer/training/internal/token_list.h"

#include <map>
#include <utility>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/bpe/byte_alphabet.h"

namespace meg::tokenizer {

TokenList::TokenList(std::span<const std::string> special_tokens) {
  for (const std::string& token : special_tokens) add(token);
  // Bytes in the order of the characters that GPT-2 writes them as: tokenizers sorts the alphabet
  // so before it gives ids.
  std::map<char32_t, uint8_t> alphabet;
  for (int byte = 0; byte < 256; ++byte) {
    alphabet[byte_character(static_cast<uint8_t>(byte))] = static_cast<uint8_t>(byte);
  }
  for (const auto& [character, byte] : alphabet) {
    std::string token;
    text::append_code_point(character, token);
    byte_tokens_[byte] = add(std::move(token));
  }
}

// A merge may make a token that is there already, such as a special token: it keeps its id.
uint32_t TokenList::add(std::string token) {
  const auto [found, is_new] = ids_.try_emplace(token, static_cast<uint32_t>(tokens_.size()));
  if (is_new) tokens_.push_back(std::move(token));
  return found->second;
}

}  // namespace meg::tokenizer
