#pragma once

#include <cstddef>
#include <string_view>

/// The reference implementation of the fast encoder: each function follows Megatron-LM's Python
/// line by line.
namespace meg::tokenizer::reference {

/// Bytes of the first word of text, which is valid UTF-8 and not empty. Continuing from there gives
/// every match of GPT-2's pattern in order (every character is in one of them):
///
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// Mirrors Megatron-LM megatron/tokenizer/gpt2_tokenization.py: GPT2Tokenizer.pat.
size_t first_word_size(std::string_view text);

}  // namespace meg::tokenizer::reference
