#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace meg::tokenizer {

/// The tokens of a vocabulary in training, each by its id, written as vocab.json does: special
/// tokens first, the bytes in order of the characters that stand for them, then what merges made.
/// Mirrors Hugging Face tokenizers, models/bpe/trainer.rs: add_special_tokens, compute_alphabet.
class TokenList {
 public:
  /// special_tokens: distinct; none is that of a byte.
  explicit TokenList(std::span<const std::string> special_tokens);

  size_t size() const { return tokens_.size(); }

  const std::string& operator[](uint32_t id) const { return tokens_[id]; }

  uint32_t byte_token(uint8_t byte) const { return byte_tokens_[byte]; }

  /// The id of the token that two others make; a new one unless it is there already, made of other
  /// parts or as a special token.
  uint32_t join(uint32_t left, uint32_t right) { return add(tokens_[left] + tokens_[right]); }

  std::vector<std::string> take() && { return std::move(tokens_); }

 private:
  uint32_t add(std::string token);

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::array<uint32_t, 256> byte_tokens_{};
};

}  // namespace meg::tokenizer
