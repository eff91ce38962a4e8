#pragma once

#include <immintrin.h>

#include <cstdint>

namespace meg::tokenizer::fast {
namespace {

/// See byte_block_avx512.h.
class ByteBlock {
 public:
  explicit ByteBlock(const unsigned char* bytes)
      : low_(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes))),
        high_(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + 32))) {}

  uint64_t in_range(char low, char high) const {
    return join(in_range(low_, low, high), in_range(high_, low, high));
  }

  uint64_t equal(char byte) const { return in_range(byte, byte); }

  uint64_t letters() const {
    const __m256i to_lower = _mm256_set1_epi8(0x20);
    return join(in_range(_mm256_or_si256(low_, to_lower), 'a', 'z'),
                in_range(_mm256_or_si256(high_, to_lower), 'a', 'z'));
  }

  uint64_t non_ascii() const { return join(low_, high_); }

  uint64_t leads() const { return in_range('\xC0', '\xFF'); }

  uint64_t wide_leads() const { return in_range('\xE3', '\xEF'); }

  uint64_t ideographs() const {
    const uint64_t leads = in_range('\xE4', '\xE9') | in_range('\xEB', '\xEC');
    const uint64_t continuation = in_range('\x80', '\xBF');
    const uint64_t symbols = in_range('\xE4', '\xE4') & in_range('\xB7', '\xB7') >> 1;
    return leads & ~symbols & continuation >> 1 & continuation >> 2;
  }

 private:
  static __m256i in_range(__m256i bytes, char low, char high) {
    // AVX2 compares signed bytes only; the unsigned minimum with the width is the distance itself
    // where that is within it. Values below `low` wrap around to large distances.
    const __m256i distance = _mm256_sub_epi8(bytes, _mm256_set1_epi8(low));
    const __m256i width = _mm256_set1_epi8(static_cast<char>(high - low));
    return _mm256_cmpeq_epi8(_mm256_min_epu8(distance, width), distance);
  }

  static uint64_t join(__m256i low, __m256i high) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(low)) |
           uint64_t{static_cast<uint32_t>(_mm256_movemask_epi8(high))} << 32;
  }

  __m256i low_, high_;
};

}  // namespace
}  // namespace meg::tokenizer::fast
