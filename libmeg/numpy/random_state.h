#pragma once

#include <array>
#include <cstdint>
#include <functional>
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

  /// If set, called about every million values; return true to stop a shuffle.
  using Stop = std::function<bool()>;

  /// Like RandomState.shuffle of a one-dimensional array. Returns whether it finished; false if
  /// `stop` ended it, with the values in an arbitrary order.
  bool shuffle(std::span<int32_t> values, const Stop& stop = {});
  bool shuffle(std::span<uint32_t> values, const Stop& stop = {});
  bool shuffle(std::span<int64_t> values, const Stop& stop = {});

  /// Draws the numbers that a shuffle of that many values draws. Returns the same as shuffle().
  bool skip_shuffle(size_t values, const Stop& stop = {});

 private:
  template <class T>
  bool shuffle_values(std::span<T> values, const Stop& stop);

  /// Fills the beginning of `targets` with the results of bounded(max), bounded(max - 1) and so on:
  /// at least one, and none for which max - k has fewer bits than max. Returns that beginning.
  std::span<const uint32_t> draw_targets(uint32_t max, std::span<uint32_t> targets);

  const RandomKernels* kernels_;
  std::array<uint32_t, kRandomStateWords> state_;
  std::array<uint32_t, kRandomStateWords> words_;  // state_, tempered
  size_t position_ = kRandomStateWords;            // of the next word
};

}  // namespace meg::numpy
