#include "libmeg/base/float_kernels.h"

#ifdef __x86_64__

#include <immintrin.h>

#define MEG_TARGET_AVX2 __attribute__((target("avx2,f16c")))

namespace meg {
namespace {

constexpr size_t kLanes = 8;

MEG_TARGET_AVX2 inline __m128i load_16_bit(const std::byte* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

MEG_TARGET_AVX2 void widen_float16(const std::byte* from, std::byte* to, size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256 wide = _mm256_cvtph_ps(load_16_bit(from + 2 * i));
    _mm256_storeu_ps(reinterpret_cast<float*>(to + 4 * i), wide);
  }
  kPortableFloatKernels.widen_float16(from + 2 * i, to + 4 * i, count - i);
}

MEG_TARGET_AVX2 void widen_bfloat16(const std::byte* from, std::byte* to, size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16_bit(from + 2 * i)), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 4 * i), wide);
  }
  kPortableFloatKernels.widen_bfloat16(from + 2 * i, to + 4 * i, count - i);
}

MEG_TARGET_AVX2 void narrow_to_float16(const std::byte* from, std::byte* to, size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256 wide = _mm256_loadu_ps(reinterpret_cast<const float*>(from + 4 * i));
    const __m128i narrow = _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * i), narrow);
  }
  kPortableFloatKernels.narrow_to_float16(from + 4 * i, to + 2 * i, count - i);
}

/// Eight float32 as bfloat16 in the low halves of their lanes: narrowed_to_bfloat16 of
/// float_kernels.cpp, with both results computed and the NaNs' chosen at the end.
MEG_TARGET_AVX2 inline __m256i narrowed_to_bfloat16(const std::byte* at) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
  const __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
}

MEG_TARGET_AVX2 void narrow_to_bfloat16(const std::byte* from, std::byte* to, size_t count) {
  size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    const __m256i packed = _mm256_packus_epi32(narrowed_to_bfloat16(from + 4 * i),
                                               narrowed_to_bfloat16(from + 4 * (i + kLanes)));
    // packus works on each 128-bit half by itself; the permutation brings the quarters back in
    // order.
    const __m256i in_order = _mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 2 * i), in_order);
  }
  kPortableFloatKernels.narrow_to_bfloat16(from + 4 * i, to + 2 * i, count - i);
}

}  // namespace

const FloatKernels kAvx2FloatKernels{widen_float16, widen_bfloat16, narrow_to_float16,
                                     narrow_to_bfloat16};

}  // namespace meg

#endif
