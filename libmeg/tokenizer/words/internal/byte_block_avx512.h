#pragma once

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "libmeg/tokenizer/words/internal/character_sets.h"

namespace meg::tokenizer::fast {
namespace {

/// 64 bytes; bit i of an answer stands for byte i. There is one header for each instruction set;
/// everything is static so that its code is not shared with files that are compiled without the
/// set.
class ByteBlock {
 public:
  /// 65 bytes must be readable.
  explicit ByteBlock(const unsigned char* bytes)
      : bytes_(_mm512_loadu_si512(bytes)), next_(_mm512_loadu_si512(bytes + 1)) {}

  /// The bytes from `low` to `high`, both below 0x7f.
  uint64_t in_range(char low, char high) const { return in_range(bytes_, low, high); }

  uint64_t equal(char byte) const { return in_range(bytes_, byte, byte); }

  /// A to Z and a to z.
  uint64_t letters() const {
    // Setting bit 0x20 maps only A to Z onto a to z; a byte of 0x80 or above keeps its top bit.
    return in_range(_mm512_or_si512(bytes_, _mm512_set1_epi8(0x20)), 'a', 'z');
  }

  uint64_t non_ascii() const { return _mm512_movepi8_mask(bytes_); }

  /// First bytes of characters outside ASCII.
  uint64_t leads() const { return in_range(bytes_, '\xC0', '\xFF'); }

  /// First bytes of characters of three bytes from U+3000 on: E3 to EF.
  uint64_t wide_leads() const { return in_range(bytes_, '\xE3', '\xEF'); }

  /// First bytes of letters of three bytes that have no case, of the ranges that hold nothing else:
  /// U+4000 to U+9FFF but for U+4DC0 to U+4DFF, and U+B000 to U+CFFF (ideographs, Hangul).
  uint64_t ideographs() const {
    const uint64_t leads = in_range(bytes_, '\xE4', '\xE9') | in_range(bytes_, '\xEB', '\xEC');
    const uint64_t continuation = in_range(bytes_, '\x80', '\xBF');
    const uint64_t symbols = in_range(bytes_, '\xE4', '\xE4') & in_range(next_, '\xB7', '\xB7');
    return leads & ~symbols & continuation >> 1 & continuation >> 2;
  }

  /// First bytes of the characters of a set.
  uint64_t starts_in(const TwoByteSet& set) const {
    const __m512i place = place_of(_mm512_set1_epi8('\xF8'));
    // A permutation looks at the lowest seven bits of a place.
    const __m512i found =
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(place), permuted(&set.entries[0], place),
                               permuted(&set.entries[128], place));
    return bits_of(found) & in_range(bytes_, '\xC2', '\xDF') & in_range(next_, '\x80', '\xBF');
  }

  /// The same; 0 for the last two bytes.
  uint64_t starts_in(const ThreeByteSet& set) const {
    const __m512i place = place_of(_mm512_set1_epi8('\x78'));
    const uint64_t continuation = in_range(bytes_, '\x80', '\xBF');
    return bits_of(permuted(&set.entries[0], place)) & in_range(bytes_, '\xE0', '\xEF') &
           continuation >> 1 & continuation >> 2;
  }

  /// Stores the bytes that `kept` has, a space for those that `spaces` has, and up to 64 others
  /// behind them. Returns the end of those that count.
  char* store_kept(uint64_t spaces, uint64_t kept, char* out) const {
    const __m512i bytes = _mm512_mask_blend_epi8(spaces, bytes_, _mm512_set1_epi8(' '));
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(kept, bytes));
    return out + __builtin_popcountll(kept);
  }

  /// Stores the positions of the set bits, each plus base; may store up to 64 entries. Returns the
  /// end of those that count.
  static uint32_t* store_places(uint64_t bits, uint32_t base, uint32_t* out) {
    const __m512i places = _mm512_maskz_compress_epi8(bits, all_places());
    // GCC 12 warns of uninitialized values in the forms without a mask.
    const auto store = [=](__m128i part, uint32_t* to) {
      const __m512i wide = _mm512_maskz_cvtepu8_epi32(0xffff, part);
      _mm512_storeu_si512(to, _mm512_add_epi32(wide, _mm512_set1_epi32(static_cast<int>(base))));
    };
    const int count = __builtin_popcountll(bits);
    store(_mm512_maskz_extracti32x4_epi32(0xf, places, 0), out);
    if (count > 16) {
      store(_mm512_maskz_extracti32x4_epi32(0xf, places, 1), out + 16);
      if (count > 32) {
        store(_mm512_maskz_extracti32x4_epi32(0xf, places, 2), out + 32);
        store(_mm512_maskz_extracti32x4_epi32(0xf, places, 3), out + 48);
      }
    }
    return out + count;
  }

 private:
  /// 0 to 63.
  static __m512i all_places() {
    alignas(64) static constexpr auto kPlaces = [] {
      std::array<uint8_t, 64> places{};
      for (uint8_t i = 0; i < 64; ++i) places[i] = i;
      return places;
    }();
    return _mm512_load_si512(kPlaces.data());
  }

  // Of a set's entries, the one for a byte and the next: its number is made of the lowest bits of
  // the former and of the upper three bits by which continuation bytes differ; the bit in it has
  // the number of the other three.

  __m512i place_of(__m512i mask) const {
    const __m512i column = _mm512_and_si512(_mm512_srli_epi16(next_, 3), _mm512_set1_epi8(7));
    return _mm512_or_si512(_mm512_and_si512(_mm512_slli_epi16(bytes_, 3), mask), column);
  }

  static __m512i permuted(const uint8_t* entries, __m512i place) {
    return _mm512_permutex2var_epi8(_mm512_load_si512(entries), place,
                                    _mm512_load_si512(entries + 64));
  }

  uint64_t bits_of(__m512i entries) const {
    const __m512i bit =
        _mm512_shuffle_epi8(_mm512_set1_epi64(static_cast<int64_t>(0x8040201008040201u)),
                            _mm512_and_si512(next_, _mm512_set1_epi8(7)));
    return _mm512_test_epi8_mask(entries, bit);
  }

  static uint64_t in_range(__m512i bytes, char low, char high) {
    return _mm512_cmple_epu8_mask(_mm512_sub_epi8(bytes, _mm512_set1_epi8(low)),
                                  _mm512_set1_epi8(static_cast<char>(high - low)));
  }

  __m512i bytes_;
  __m512i next_;  // those from the second one on
};

}  // namespace
}  // namespace meg::tokenizer::fast
