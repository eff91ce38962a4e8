#include "libmeg/tokenizer/models/internal/bpe/byte_alphabet.h"

#include "libmeg/text/utf8.h"

namespace meg::tokenizer {

namespace {

constexpr int kCharacters = 256 + 68;  // every character of the alphabet is below

/// GPT-2's bytes_to_unicode: bytes that Latin-1 prints stand for themselves, the 68 others (control
/// characters, space, soft hyphen ...) for the code points from U+0100 on, in their order. So a
/// vocabulary is readable JSON without whitespace in its keys.
constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

struct Tables {
  std::array<char32_t, 256> character{};
  std::array<int16_t, kCharacters> byte{};  // -1 outside the alphabet

  constexpr Tables() {
    for (int16_t& entry : byte) entry = -1;
    char32_t next = 256;
    for (int value = 0; value < 256; ++value) {
      const auto index = static_cast<size_t>(value);
      character[index] = stands_for_itself(value) ? static_cast<char32_t>(value) : next++;
      byte[character[index]] = static_cast<int16_t>(value);
    }
  }
};

constexpr Tables kTables;

}  // namespace

char32_t byte_character(uint8_t byte) { return kTables.character[byte]; }

void append_byte_characters(std::string_view bytes, std::string& text) {
  for (const char byte : bytes) {
    text::append_code_point(byte_character(static_cast<uint8_t>(byte)), text);
  }
}

std::optional<uint8_t> character_byte(char32_t character) {
  if (character >= kCharacters || kTables.byte[character] < 0) return std::nullopt;
  return static_cast<uint8_t>(kTables.byte[character]);
}

bool append_alphabet_bytes(std::string_view text, std::string& bytes) {
  const size_t size_before = bytes.size();
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const text::DecodedCodePoint found =
        first < 0x80 ? text::DecodedCodePoint{first, 1} : text::decode_code_point(text.substr(at));
    const std::optional<uint8_t> byte = character_byte(found.code_point);
    if (!byte) {
      // All of a text or nothing: a token with one foreign character is none of the alphabet's.
      bytes.resize(size_before);
      return false;
    }
    bytes.push_back(static_cast<char>(*byte));
    at += found.size;
  }
  return true;
}

}  // namespace meg::tokenizer
