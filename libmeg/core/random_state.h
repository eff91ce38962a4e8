#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace meg {

/// numpy's legacy generator, bit for bit: MT19937 seeded with init_genrand, and shuffle.
/// Mirrors numpy.random.RandomState(seed).
class RandomState {
 public:
  explicit RandomState(uint32_t seed);

  /// The next 32-bit word.
  uint32_t next();

  /// Uniform over 0 to max, both included: words masked to max's bits, drawn until one fits; two
  /// words, the high one first, where max needs more than 32 bits. max 0 draws nothing.
  uint64_t bounded(uint64_t max);

  /// As RandomState.shuffle of a one-dimensional array.
  void shuffle(std::span<int32_t> values);
  void shuffle(std::span<uint32_t> values);
  void shuffle(std::span<int64_t> values);

 private:
  void refill();

  static constexpr size_t kWords = 624;
  std::array<uint32_t, kWords> state_;
  size_t position_ = kWords;
};

}  // namespace meg
