#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "libmeg/base/cpu.h"

namespace meg::numpy {

/// Words of MT19937's state.
inline constexpr size_t kRandomStateWords = 624;

/// How far a draw came.
struct RandomDraw {
  size_t words = 0;    ///< Taken, those that did not fit too.
  size_t targets = 0;  ///< Found.
};

/// MT19937 and drawing below a falling bound. Every instruction set gives the same numbers.
struct RandomKernels {
  /// The next 624 words of state; `words` are the same as they are drawn (tempered).
  void (*refill)(uint32_t* state, uint32_t* words);

  /// targets[k] is uniform over 0 to max - k: each word is masked to max's bits and left out if it
  /// is too large. Ends with either span. Every max - k must have as many bits as max.
  RandomDraw (*draw)(std::span<const uint32_t> words, uint32_t max, std::span<uint32_t> targets);
};

/// The kernels for a set that best_instruction_set() allows.
const RandomKernels& random_kernels(InstructionSet set);

extern const RandomKernels kPortableRandomKernels;

#ifdef __x86_64__
extern const RandomKernels kAvx2RandomKernels;
extern const RandomKernels kAvx512RandomKernels;
#endif

/// All ones in max's bits; max is not 0.
inline uint32_t bit_mask_of(uint32_t max) { return ~uint32_t{0} >> std::countl_zero(max); }

// What refill is made of: word i follows from the words i, i + 1 and i + 397 (modulo 624).

inline constexpr size_t kRandomShift = 397;
inline constexpr uint32_t kRandomUpper = 0x80000000U;
inline constexpr uint32_t kRandomTwist = 0x9908b0dfU;
inline constexpr uint32_t kRandomTemper7 = 0x9d2c5680U;
inline constexpr uint32_t kRandomTemper15 = 0xefc60000U;

inline uint32_t twisted_word(uint32_t word, uint32_t next, uint32_t shifted) {
  const uint32_t mixed = (word & kRandomUpper) | (next & ~kRandomUpper);
  return shifted ^ (mixed >> 1) ^ ((mixed & 1U) != 0 ? kRandomTwist : 0);
}

inline uint32_t tempered_word(uint32_t word) {
  word ^= word >> 11;
  word ^= (word << 7) & kRandomTemper7;
  word ^= (word << 15) & kRandomTemper15;
  return word ^ (word >> 18);
}

/// Continues a draw at `done`, one word at a time. mask: bit_mask_of(max).
inline void draw_plainly(std::span<const uint32_t> words, uint32_t mask, uint32_t max,
                         std::span<uint32_t> targets, RandomDraw& done) {
  while (done.words < words.size() && done.targets < targets.size()) {
    const uint32_t word = words[done.words++] & mask;
    targets[done.targets] = word;  // stays only if it fits
    done.targets += word <= max - done.targets ? 1 : 0;
  }
}

}  // namespace meg::numpy
