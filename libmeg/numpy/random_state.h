#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "libmeg/base/cpu.h"
#include "libmeg/numpy/random_kernels.h"

namespace meg::numpy {

/// numpy's legacy generator, bit for bit: MT19937 seeded with init_genrand, and shuffle.
/// Mirrors numpy.random.RandomState(seed).
class RandomState {
 public:
  /// set: the instructions used; the numbers are the same with all.
  explicit RandomState(uint32_t seed, InstructionSet set = best_instruction_set());

  /// The next 32-bit word.
  uint32_t next();

  /// Uniform over 0 to max, both included: words masked to max's bits, drawn until one fits; two
  /// words, the high one first, where max needs more than 32 bits. max 0 draws nothing.
  uint64_t bounded(uint64_t max);

  /// As RandomState.shuffle of a one-dimensional array.
  void shuffle(std::span<int32_t> values);
  void shuffle(std::span<uint32_t> values);
  void shuffle(std::span<int64_t> values);

  /// Draws what a shuffle of so many values draws.
  void skip_shuffle(size_t values);

 private:
  template <class T>
  void shuffle_values(std::span<T> values);

  /// Fills `targets` with what bounded(max), bounded(max - 1) and so on would give, or begins to:
  /// at least one, none where max - k has fewer bits than max. Returns those.
  std::span<const uint32_t> draw_targets(uint32_t max, std::span<uint32_t> targets);

  const RandomKernels* kernels_;
  std::array<uint32_t, kRandomStateWords> state_;
  std::array<uint32_t, kRandomStateWords> words_;  // state_, tempered
  size_t position_ = kRandomStateWords;            // of the next word
};

}  // namespace meg::numpy
