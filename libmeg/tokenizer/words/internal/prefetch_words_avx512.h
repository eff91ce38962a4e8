// Included by the source file of AVX-512 alone; everything here is static.
#pragma once

#include <immintrin.h>

#include "libmeg/tokenizer/words/internal/prefetch_words.h"

namespace meg::tokenizer::fast {
namespace {

constexpr size_t kWords = 4;  // whose keys are one register

/// Where the sets of four hashes are, each of which is in two lanes.
inline __m512i sets_of(__m512i hashes, const SetTable& table) {
  const __m512i offsets =
      _mm512_and_si512(_mm512_maskz_srl_epi64(0xff, hashes, _mm_cvtsi32_si128(table.shift)),
                       _mm512_set1_epi64(-static_cast<int64_t>(table.set_bytes)));
  return _mm512_add_epi64(offsets, _mm512_set1_epi64(reinterpret_cast<int64_t>(table.begin)));
}

/// The two halves of each key exchanged.
inline __m512i exchanged(__m512i keys) {
  return _mm512_maskz_shuffle_epi32(0xffff, keys, _MM_PERM_BADC);
}

inline void prefetch(const void* set) { _mm_prefetch(static_cast<const char*>(set), _MM_HINT_T0); }

inline size_t prefetch_words_avx512(const char* base, const uint32_t* starts, size_t count,
                                    const SetTable& ascii, const SetTable& wide, WordKey<16>* keys,
                                    const void** sets) {
  const __m128i one = _mm_set1_epi32(1);
  const auto k0 = static_cast<int64_t>(WordKey<16>::kMultipliers[0]);
  const auto k1 = static_cast<int64_t>(WordKey<16>::kMultipliers[1]);
  const __m512i multipliers = _mm512_set_epi64(k1, k0, k1, k0, k1, k0, k1, k0);
  size_t i = 0;
  for (; i + kWords <= count; i += kWords) {
    const __m128i begins = _mm_loadu_si128(reinterpret_cast<const __m128i*>(starts + i));
    const __m128i ends = _mm_loadu_si128(reinterpret_cast<const __m128i*>(starts + i + 1));
    const __m128i lengths = _mm_sub_epi32(ends, begins);
    if (_mm_cmpgt_epu32_mask(lengths, _mm_set1_epi32(15)) != 0) break;
    // The words follow each other, so that their bytes only have to be spread over the keys: as
    // many of the 16 of each as it has.
    const __m128i bytes = _mm_sub_epi32(_mm_sllv_epi32(one, lengths), one);
    const auto mask = static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_cvtepi32_epi16(bytes)));
    const __m512i words = _mm512_maskz_expand_epi8(mask, _mm512_loadu_si512(base + starts[i]));
    const __m512i last_bytes =
        _mm512_maskz_expand_epi32(0x8888, _mm512_castsi128_si512(_mm_slli_epi32(lengths, 24)));
    const __m512i four_keys = _mm512_or_si512(words, last_bytes);
    _mm512_storeu_si512(keys + i, four_keys);

    const __m512i products = _mm512_mullo_epi64(four_keys, multipliers);
    const __m512i hashes = _mm512_add_epi64(products, exchanged(products));
    __m512i places = sets_of(hashes, ascii);
    const __mmask8 is_wide =
        _mm512_test_epi64_mask(_mm512_or_si512(words, exchanged(words)), _mm512_set1_epi8('\x80'));
    if (is_wide != 0) places = _mm512_mask_mov_epi64(places, is_wide, sets_of(hashes, wide));
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(sets + i),
        _mm512_maskz_extracti64x4_epi64(0xf, _mm512_maskz_compress_epi64(0x55, places), 0));
    for (size_t k = 0; k < kWords; ++k) prefetch(sets[i + k]);
    for (uint32_t left = is_wide & 0x55; left != 0; left &= left - 1) {
      prefetch(static_cast<const char*>(sets[i + static_cast<size_t>(_tzcnt_u32(left)) / 2]) + 64);
    }
  }
  return i;
}

}  // namespace
}  // namespace meg::tokenizer::fast
