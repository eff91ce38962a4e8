#pragma once

#include <immintrin.h>

#include <cstdint>

namespace meg::tokenizer::fast {
namespace {

/// 64 bytes; bit i of an answer stands for byte i. There is one header for each instruction set;
/// everything is static so that its code is not shared with files that are compiled without the
/// set.
class ByteBlock {
 public:
  explicit ByteBlock(const unsigned char* bytes) : bytes_(_mm512_loadu_si512(bytes)) {}

  /// The bytes from `low` to `high`, both below 0x7f.
  uint64_t in_range(char low, char high) const { return in_range(bytes_, low, high); }

  /// A to Z and a to z.
  uint64_t letters() const {
    // Setting bit 0x20 maps only A to Z onto a to z; a byte of 0x80 or above keeps its top bit.
    return in_range(_mm512_or_si512(bytes_, _mm512_set1_epi8(0x20)), 'a', 'z');
  }

  uint64_t non_ascii() const { return _mm512_movepi8_mask(bytes_); }

  /// First bytes of characters of three bytes from U+3000 on: E3 to EF.
  uint64_t wide_leads() const { return in_range(bytes_, '\xE3', '\xEF'); }

 private:
  static uint64_t in_range(__m512i bytes, char low, char high) {
    return _mm512_cmple_epu8_mask(_mm512_sub_epi8(bytes, _mm512_set1_epi8(low)),
                                  _mm512_set1_epi8(static_cast<char>(high - low)));
  }

  __m512i bytes_;
};

}  // namespace
}  // namespace meg::tokenizer::fast
