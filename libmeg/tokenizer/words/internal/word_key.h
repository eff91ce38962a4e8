#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace meg::tokenizer::fast {

/// 64 well-mixed bits of two words: the two halves of their product.
inline uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xe7037ed1a0b428dbu);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/// A word of fewer than kBytes bytes (16 or 32), padded with zeros, its length in the last byte:
/// equal keys mean equal words.
template <size_t kBytes>
struct WordKey {
  static constexpr size_t kParts = kBytes / 8;
  static constexpr std::array<uint64_t, 4> kMultipliers = {
      0x9e3779b97f4a7c15u, 0xe7037ed1a0b428dbu, 0x8ebc6af09c88c6e3u, 0x589965cc75374cc3u};

  std::array<uint64_t, kParts> parts;

  /// length: at most kBytes; with kBytes, the key is one that no word has. kBytes bytes from `word`
  /// must be readable.
  WordKey(const char* word, size_t length) {
    const Form& form = kForms[length];
    for (size_t i = 0; i < kParts; ++i) {
      uint64_t part;
      std::memcpy(&part, word + 8 * i, 8);
      parts[i] = part & form.masks[i];
    }
    parts.back() |= form.length;
  }

  WordKey() = default;

  bool operator==(const WordKey& other) const {
    uint64_t difference = 0;
    for (size_t i = 0; i < kParts; ++i) difference |= parts[i] ^ other.parts[i];
    return difference == 0;
  }

  bool is_ascii() const {
    uint64_t all = 0;
    for (const uint64_t part : parts) all |= part;
    return (all & 0x8080808080808080u) == 0;
  }

  /// Well mixed in its upper half: the upper bits of a product depend on all bits of its factors.
  uint64_t hash() const {
    uint64_t sum = 0;
    for (size_t i = 0; i < kParts; ++i) sum += parts[i] * kMultipliers[i];
    return sum;
  }

 private:
  /// What a length does to a key.
  struct Form {
    std::array<uint64_t, kParts> masks;  // of the word's bytes
    uint64_t length;                     // where the key has it
  };

  static constexpr auto kForms = [] {
    std::array<Form, kBytes + 1> forms{};
    for (size_t length = 0; length <= kBytes; ++length) {
      for (size_t byte = 0; byte < length && byte + 1 < kBytes; ++byte) {
        forms[length].masks[byte / 8] |= uint64_t{0xff} << (8 * (byte % 8));
      }
      forms[length].length = uint64_t{length} << 56;
    }
    return forms;
  }();
};

/// Hash of a word of any length.
inline uint64_t hash_word(std::string_view word) {
  uint64_t hash = word.size();
  const char* p = word.data();
  size_t left = word.size();
  for (; left >= 16; p += 16, left -= 16) {
    uint64_t a;
    uint64_t b;
    std::memcpy(&a, p, 8);
    std::memcpy(&b, p + 8, 8);
    hash = mix(a ^ hash, b);
  }
  uint64_t tail[2] = {0, 0};
  std::memcpy(tail, p, left);
  return mix(tail[0] ^ hash, tail[1]);
}

}  // namespace meg::tokenizer::fast
