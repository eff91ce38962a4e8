#include "libmeg/text/json/internal/string_kernels_x86.h"

#ifdef __x86_64__

#include <immintrin.h>

#include <bit>
#include <cstdint>

#include "libmeg/text/json/internal/string_escape.h"

#define MEG_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2")))

namespace meg::text {
namespace {

MEG_TARGET_AVX2 inline __m256i load(const char* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

/// A bit for every quote, backslash and control character. AVX2 compares signed bytes only, so
/// "below 0x20" is asked as max(byte, 0x1f) == 0x1f, without a sign.
MEG_TARGET_AVX2 inline uint32_t special_bytes(__m256i bytes) {
  const __m256i last_control = _mm256_set1_epi8(0x1f);
  const __m256i control = _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, last_control), last_control);
  const __m256i quote = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('"'));
  const __m256i backslash = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\\'));
  const __m256i special = _mm256_or_si256(_mm256_or_si256(control, quote), backslash);
  return static_cast<uint32_t>(_mm256_movemask_epi8(special));
}

MEG_TARGET_AVX2 const char* find_special(const char* at, const char* end) {
  for (; at < end; at += sizeof(__m256i)) {
    const uint32_t special = special_bytes(load(at));
    if (special != 0) return at + std::countr_zero(special);
  }
  return at;
}

/// Works like unescape_portable, 32 bytes at a time.
MEG_TARGET_AVX2 bool unescape(const char*& at, const char* end, char*& out) {
  while (at < end) {
    const __m256i bytes = load(at);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), bytes);
    const uint32_t special = special_bytes(bytes);
    const int plain = std::countr_zero(special);  // 32 where there is none
    at += plain;
    out += plain;
    if (special == 0) continue;
    if (*at != '\\') return *at == '"' && at < end;
    while (*at == '\\' && at < end) {
      if (!unescape_one(at, out)) return false;
    }
  }
  return false;
}

}  // namespace

const StringKernels kAvx2StringKernels{find_special, unescape};

}  // namespace meg::text

#endif
