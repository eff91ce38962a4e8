#include "libmeg/numpy/pcg64.h"

#include <array>
#include <bit>
#include <vector>

// Constants are those of numpy: SeedSequence's (numpy/random/bit_generator.pyx: INIT_A, MULT_A,
// INIT_B, MULT_B, MIX_MULT_L, MIX_MULT_R) and PCG64's multiplier. Every draw must take exactly as
// many words as numpy takes, as the next draw begins where this one ends: a rejection too many or a
// half word forgotten shifts all numbers that follow.

namespace meg::numpy {
namespace {

constexpr uint32_t kMost32 = 0xffffffffU;
constexpr uint64_t kMost64 = 0xffffffffffffffffU;

/// A running multiplicative hash of 32-bit words.
class WordHash {
 public:
  WordHash(uint32_t first, uint32_t multiplier) : factor_(first), multiplier_(multiplier) {}

  uint32_t operator()(uint32_t word) {
    word ^= factor_;
    factor_ *= multiplier_;
    word *= factor_;
    return word ^ (word >> 16);
  }

 private:
  uint32_t factor_;
  uint32_t multiplier_;
};

uint32_t mixed(uint32_t a, uint32_t b) {
  const uint32_t mix = a * 0xca01f9ddU - b * 0x4973f715U;
  return mix ^ (mix >> 16);
}

using Pool = std::array<uint32_t, 4>;

/// Each number's 32-bit words, low first, without high zeros.
std::vector<uint32_t> seed_words(std::span<const uint64_t> seed) {
  std::vector<uint32_t> words;
  for (const uint64_t number : seed) {
    words.push_back(static_cast<uint32_t>(number));
    if (number > kMost32) words.push_back(static_cast<uint32_t>(number >> 32));
  }
  return words;
}

/// Mirrors numpy.random.SeedSequence.mix_entropy.
Pool seed_pool(std::span<const uint64_t> seed) {
  std::vector<uint32_t> words = seed_words(seed);
  Pool pool{};
  if (words.size() < pool.size()) words.resize(pool.size());
  WordHash hash(0x43b0d7e5U, 0x931e8875U);
  for (size_t i = 0; i < pool.size(); ++i) pool[i] = hash(words[i]);
  for (size_t from = 0; from < pool.size(); ++from) {
    for (size_t to = 0; to < pool.size(); ++to) {
      if (from != to) pool[to] = mixed(pool[to], hash(pool[from]));
    }
  }
  // Words beyond the pool's four are mixed into all of it.
  for (size_t from = pool.size(); from < words.size(); ++from) {
    for (uint32_t& to : pool) to = mixed(to, hash(words[from]));
  }
  return pool;
}

/// Mirrors numpy.random.SeedSequence.generate_state.
std::array<uint64_t, 4> seed_state(std::span<const uint64_t> seed) {
  const Pool pool = seed_pool(seed);
  WordHash hash(0x8b51f9ddU, 0x58f38dedU);
  std::array<uint64_t, 4> state{};
  for (size_t i = 0; i < state.size(); ++i) {
    const uint64_t low = hash(pool[2 * i % pool.size()]);
    state[i] = low | uint64_t{hash(pool[(2 * i + 1) % pool.size()])} << 32;
  }
  return state;
}

}  // namespace

Pcg64::Pcg64(std::span<const uint64_t> seed) {
  const std::array<uint64_t, 4> words = seed_state(seed);
  // Numbers three and four choose the stream. It must be odd for the full period, hence the shift
  // and the one.
  increment_ = (((Wide{words[2]} << 64) | words[3]) << 1) | 1;
  step();
  state_ += (Wide{words[0]} << 64) | words[1];
  step();
}

uint64_t Pcg64::next64() {
  step();
  const auto high = static_cast<uint64_t>(state_ >> 64);
  return std::rotr(high ^ static_cast<uint64_t>(state_), static_cast<int>(high >> 58));
}

uint32_t Pcg64::next32() {
  // A 64-bit draw in between does not touch the kept half, as in numpy.
  if (has_high_half_) {
    has_high_half_ = false;
    return high_half_;
  }
  const uint64_t word = next64();
  high_half_ = static_cast<uint32_t>(word >> 32);
  has_high_half_ = true;
  return static_cast<uint32_t>(word);
}

/// Lemire's method: the high half of a product, redrawn where the low half would favour some. numpy
/// computes the threshold only for low halves below `values`; the threshold is smaller than that,
/// so the same words are refused.
uint32_t Pcg64::bounded32(uint32_t max) {
  const uint32_t values = max + 1;
  const uint32_t threshold = (kMost32 - max) % values;
  while (true) {
    const uint64_t product = uint64_t{next32()} * values;
    if (static_cast<uint32_t>(product) >= threshold) return static_cast<uint32_t>(product >> 32);
  }
}

uint64_t Pcg64::bounded64(uint64_t max) {
  const uint64_t values = max + 1;
  const uint64_t threshold = (kMost64 - max) % values;
  while (true) {
    const Wide product = Wide{next64()} * values;
    if (static_cast<uint64_t>(product) >= threshold) return static_cast<uint64_t>(product >> 64);
  }
}

uint64_t Pcg64::bounded(uint64_t max) {
  if (max == 0) return 0;
  if (max < kMost32) return bounded32(static_cast<uint32_t>(max));
  // numpy takes 32-bit words as long as they reach, and a word as it is where every value is
  // allowed. Which of the branches is taken decides how many words are used up.
  if (max == kMost32) return next32();
  return max == kMost64 ? next64() : bounded64(max);
}

}  // namespace meg::numpy
