#include "libmeg/numpy/random_kernels.h"

#ifdef __x86_64__

#include <immintrin.h>

#define MEG_TARGET_AVX512 __attribute__((target("avx512f,bmi,bmi2")))

namespace meg::numpy {
namespace {

constexpr size_t kLanes = 16;

MEG_TARGET_AVX512 inline __m512i load(const uint32_t* from) { return _mm512_loadu_si512(from); }

MEG_TARGET_AVX512 inline __m512i lanes_of(uint32_t word) {
  return _mm512_set1_epi32(static_cast<int>(word));
}

/// twisted_word of 16 neighbours.
MEG_TARGET_AVX512 inline void twist(uint32_t* at, const uint32_t* shifted) {
  constexpr int kSecondOrThird = 0xca;  // a ? b : c, bit by bit
  const __m512i mixed =
      _mm512_ternarylogic_epi32(lanes_of(kRandomUpper), load(at), load(at + 1), kSecondOrThird);
  const __mmask16 odd = _mm512_test_epi32_mask(mixed, lanes_of(1));
  const __m512i plain = _mm512_xor_si512(_mm512_srli_epi32(mixed, 1), load(shifted));
  const __m512i twisted = _mm512_mask_xor_epi32(plain, odd, plain, lanes_of(kRandomTwist));
  _mm512_storeu_si512(at, twisted);
}

MEG_TARGET_AVX512 inline __m512i tempered(__m512i word) {
  constexpr int kXorOfAnd = 0x78;  // a ^ (b & c)
  word = _mm512_xor_si512(word, _mm512_srli_epi32(word, 11));
  word = _mm512_ternarylogic_epi32(word, _mm512_slli_epi32(word, 7), lanes_of(kRandomTemper7),
                                   kXorOfAnd);
  word = _mm512_ternarylogic_epi32(word, _mm512_slli_epi32(word, 15), lanes_of(kRandomTemper15),
                                   kXorOfAnd);
  return _mm512_xor_si512(word, _mm512_srli_epi32(word, 18));
}

MEG_TARGET_AVX512 void refill(uint32_t* state, uint32_t* words) {
  constexpr size_t kAround = kRandomStateWords - kRandomShift;
  constexpr size_t kLast = kRandomStateWords - 1;
  size_t i = 0;
  // Both distances, 397 ahead and 227 back, are more than a vector, so the words of one vector do
  // not depend on each other.
  for (; i + kLanes <= kAround; i += kLanes) twist(state + i, state + i + kRandomShift);
  for (; i < kAround; ++i) {
    state[i] = twisted_word(state[i], state[i + 1], state[i + kRandomShift]);
  }
  for (; i + kLanes <= kLast; i += kLanes) twist(state + i, state + i - kAround);
  for (; i < kLast; ++i) state[i] = twisted_word(state[i], state[i + 1], state[i - kAround]);
  state[kLast] = twisted_word(state[kLast], state[0], state[kRandomShift - 1]);
  static_assert(kRandomStateWords % kLanes == 0);
  for (i = 0; i < kRandomStateWords; i += kLanes) {
    _mm512_storeu_si512(words + i, tempered(load(state + i)));
  }
}

MEG_TARGET_AVX512 RandomDraw draw(std::span<const uint32_t> words, uint32_t max,
                                  std::span<uint32_t> targets) {
  const uint32_t mask = bit_mask_of(max);
  RandomDraw done;
  while (done.words + kLanes <= words.size() && done.targets + kLanes <= targets.size()) {
    const auto bound = max - static_cast<uint32_t>(done.targets);
    const __m512i word = _mm512_and_si512(load(words.data() + done.words), lanes_of(mask));
    const __mmask16 fit = _mm512_cmple_epu32_mask(word, lanes_of(bound));
    const auto found = static_cast<uint32_t>(std::popcount(fit));
    // A word just below the bound may be too large once those before it are taken.
    if (found > bound || _mm512_cmple_epu32_mask(word, lanes_of(bound - found)) != fit) {
      draw_plainly(words.first(done.words + kLanes), mask, max, targets, done);
      continue;
    }
    _mm512_storeu_si512(targets.data() + done.targets, _mm512_maskz_compress_epi32(fit, word));
    done.words += kLanes;
    done.targets += found;
  }
  draw_plainly(words, mask, max, targets, done);
  return done;
}

}  // namespace

const RandomKernels kAvx512RandomKernels{refill, draw};

}  // namespace meg::numpy

#endif
