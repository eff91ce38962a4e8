#include "libmeg/base/float_kernels.h"

#ifdef __x86_64__

#include <immintrin.h>

#define MEG_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

namespace meg {
namespace {

constexpr size_t kLanes = 16;

MEG_TARGET_AVX512 inline __m256i load_16_bit(const std::byte* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

MEG_TARGET_AVX512 inline void store_16_bit(std::byte* at, __m256i narrow) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), narrow);
}

MEG_TARGET_AVX512 void widen_float16(const std::byte* from, std::byte* to, size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    _mm512_storeu_ps(to + 4 * i, _mm512_cvtph_ps(load_16_bit(from + 2 * i)));
  }
  kPortableFloatKernels.widen_float16(from + 2 * i, to + 4 * i, count - i);
}

MEG_TARGET_AVX512 void widen_bfloat16(const std::byte* from, std::byte* to, size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m512i wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(load_16_bit(from + 2 * i)), 16);
    _mm512_storeu_si512(to + 4 * i, wide);
  }
  kPortableFloatKernels.widen_bfloat16(from + 2 * i, to + 4 * i, count - i);
}

MEG_TARGET_AVX512 void narrow_to_float16(const std::byte* from, std::byte* to, size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m512 wide = _mm512_loadu_ps(from + 4 * i);
    store_16_bit(to + 2 * i, _mm512_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  kPortableFloatKernels.narrow_to_float16(from + 4 * i, to + 2 * i, count - i);
}

// It does without vcvtneps2bf16, which takes subnormal numbers for zero.
MEG_TARGET_AVX512 void narrow_to_bfloat16(const std::byte* from, std::byte* to, size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m512i bits = _mm512_loadu_si512(from + 4 * i);
    const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    const __mmask16 is_nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i chosen =
        _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x00400000));
    store_16_bit(to + 2 * i, _mm512_cvtepi32_epi16(_mm512_srli_epi32(chosen, 16)));
  }
  kPortableFloatKernels.narrow_to_bfloat16(from + 4 * i, to + 2 * i, count - i);
}

}  // namespace

const FloatKernels kAvx512FloatKernels{widen_float16, widen_bfloat16, narrow_to_float16,
                                       narrow_to_bfloat16};

}  // namespace meg

#endif
