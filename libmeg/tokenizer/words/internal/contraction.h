// The contractions of GPT-2's pattern. Everything here is static, as its users are compiled for
// different instruction sets.
#pragma once

#include <cstdint>

namespace meg::tokenizer::fast {
namespace {

/// Bytes of the contraction 's 't 'm 'd 're 've 'll that begins at the apostrophe p; 0 where none.
inline uint32_t contraction_length(const unsigned char* p, const unsigned char* end) {
  if (end - p < 2) return 0;
  const unsigned char first = p[1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (end - p < 3) return 0;
  const unsigned char second = p[2];
  const bool three = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                     (first == 'l' && second == 'l');
  return three ? 3 : 0;
}

}  // namespace
}  // namespace meg::tokenizer::fast
