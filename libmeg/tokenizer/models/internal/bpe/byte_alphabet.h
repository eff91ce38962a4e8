#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace meg::tokenizer {

/// Byte-level BPE writes every byte as one printable character: bytes that Latin-1 prints stand for
/// themselves, the 68 others are U+0100 and on in order of their value.
/// Mirrors Megatron-LM megatron/tokenizer/gpt2_tokenization.py: bytes_to_unicode.
char32_t byte_character(uint8_t byte);

/// Appends the characters that stand for the bytes, in UTF-8.
void append_byte_characters(std::string_view bytes, std::string& text);

/// The byte that a character stands for; empty for a character outside the alphabet.
std::optional<uint8_t> character_byte(char32_t character);

/// Appends the bytes that the characters of `text` (valid UTF-8) stand for. If one of them is
/// outside the alphabet, appends nothing and returns false.
bool append_alphabet_bytes(std::string_view text, std::string& bytes);

}  // namespace meg::tokenizer
