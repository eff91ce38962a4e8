#include "libmeg/numpy/random_kernels.h"

#ifdef __x86_64__

#include <immintrin.h>

#include <array>

#define MEG_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2")))

namespace meg::numpy {
namespace {

constexpr size_t kLanes = 8;

/// The numbers of the lanes of each set, in order, then zeros: AVX2 has no compress, so words that
/// fit are moved together by a permutation that is looked up.
constexpr auto kLanesOf = [] {
  std::array<std::array<int32_t, kLanes>, 256> table = {};
  for (size_t set = 0; set < table.size(); ++set) {
    size_t count = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if ((set >> lane & 1) != 0) table[set][count++] = static_cast<int32_t>(lane);
    }
  }
  return table;
}();

MEG_TARGET_AVX2 inline __m256i load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

MEG_TARGET_AVX2 inline void store(uint32_t* to, __m256i words) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
}

MEG_TARGET_AVX2 inline __m256i lanes_of(uint32_t word) {
  return _mm256_set1_epi32(static_cast<int>(word));
}

/// twisted_word of 8 neighbours.
MEG_TARGET_AVX2 inline void twist(uint32_t* at, const uint32_t* shifted) {
  const __m256i mixed = _mm256_or_si256(_mm256_and_si256(load(at), lanes_of(kRandomUpper)),
                                        _mm256_and_si256(load(at + 1), lanes_of(~kRandomUpper)));
  const __m256i odd = _mm256_cmpeq_epi32(_mm256_and_si256(mixed, lanes_of(1)), lanes_of(1));
  const __m256i plain = _mm256_xor_si256(_mm256_srli_epi32(mixed, 1), load(shifted));
  store(at, _mm256_xor_si256(plain, _mm256_and_si256(odd, lanes_of(kRandomTwist))));
}

MEG_TARGET_AVX2 inline __m256i tempered(__m256i word) {
  word = _mm256_xor_si256(word, _mm256_srli_epi32(word, 11));
  word = _mm256_xor_si256(word,
                          _mm256_and_si256(_mm256_slli_epi32(word, 7), lanes_of(kRandomTemper7)));
  word = _mm256_xor_si256(word,
                          _mm256_and_si256(_mm256_slli_epi32(word, 15), lanes_of(kRandomTemper15)));
  return _mm256_xor_si256(word, _mm256_srli_epi32(word, 18));
}

MEG_TARGET_AVX2 void refill(uint32_t* state, uint32_t* words) {
  constexpr size_t kAround = kRandomStateWords - kRandomShift;
  constexpr size_t kLast = kRandomStateWords - 1;
  size_t i = 0;
  // Like the portable refill: both distances, 397 ahead and 227 back, are more than a vector, so
  // the words of one vector do not depend on each other.
  for (; i + kLanes <= kAround; i += kLanes) twist(state + i, state + i + kRandomShift);
  for (; i < kAround; ++i) {
    state[i] = twisted_word(state[i], state[i + 1], state[i + kRandomShift]);
  }
  for (; i + kLanes <= kLast; i += kLanes) twist(state + i, state + i - kAround);
  for (; i < kLast; ++i) state[i] = twisted_word(state[i], state[i + 1], state[i - kAround]);
  state[kLast] = twisted_word(state[kLast], state[0], state[kRandomShift - 1]);
  static_assert(kRandomStateWords % kLanes == 0);
  for (i = 0; i < kRandomStateWords; i += kLanes) store(words + i, tempered(load(state + i)));
}

/// The lanes, as bits, whose word is at most `bound`.
MEG_TARGET_AVX2 inline uint32_t lanes_up_to(__m256i word, uint32_t bound) {
  const __m256i fit = _mm256_cmpeq_epi32(_mm256_min_epu32(word, lanes_of(bound)), word);
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(fit)));
}

MEG_TARGET_AVX2 RandomDraw draw(std::span<const uint32_t> words, uint32_t max,
                                std::span<uint32_t> targets) {
  const uint32_t mask = bit_mask_of(max);
  RandomDraw done;
  // Room for a whole vector of targets, as all lanes are stored and only those that fit are
  // counted.
  while (done.words + kLanes <= words.size() && done.targets + kLanes <= targets.size()) {
    const auto bound = max - static_cast<uint32_t>(done.targets);
    const __m256i word = _mm256_and_si256(load(words.data() + done.words), lanes_of(mask));
    const uint32_t fit = lanes_up_to(word, bound);
    const auto found = static_cast<uint32_t>(std::popcount(fit));
    // A word just below the bound may be too large once those before it are taken.
    if (found > bound || lanes_up_to(word, bound - found) != fit) {
      draw_plainly(words.first(done.words + kLanes), mask, max, targets, done);
      continue;
    }
    store(targets.data() + done.targets,
          _mm256_permutevar8x32_epi32(word, load(kLanesOf[fit].data())));
    done.words += kLanes;
    done.targets += found;
  }
  draw_plainly(words, mask, max, targets, done);
  return done;
}

}  // namespace

const RandomKernels kAvx2RandomKernels{refill, draw};

}  // namespace meg::numpy

#endif
