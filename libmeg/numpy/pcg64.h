#pragma once

#include <cstdint>
#include <span>

namespace meg::numpy {

/// numpy's default generator, bit for bit: SeedSequence, then PCG64 (XSL-RR, 128 bits of state).
/// Mirrors numpy.random.default_rng(seed).
class Pcg64 {
 public:
  /// seed: a number, or the numbers of a list.
  explicit Pcg64(std::span<const uint64_t> seed);

  explicit Pcg64(uint64_t seed) : Pcg64(std::span<const uint64_t>(&seed, 1)) {}

  uint64_t next64();

  /// The low half of a 64-bit word, then the high half that was kept.
  uint32_t next32();

  /// Uniform over 0 to max, both included: as Generator.integers(0, max, endpoint=True) gives them
  /// for int64, and for int32 where max is within it. max 0 draws nothing.
  uint64_t bounded(uint64_t max);

 private:
  __extension__ using Wide = unsigned __int128;

  void step() { state_ = state_ * kMultiplier + increment_; }

  uint32_t bounded32(uint32_t max);
  uint64_t bounded64(uint64_t max);

  static constexpr Wide kMultiplier = (Wide{0x2360ed051fc65da4} << 64) | 0x4385df649fccf645;
  Wide state_ = 0;
  Wide increment_ = 0;
  bool has_high_half_ = false;
  uint32_t high_half_ = 0;
};

}  // namespace meg::numpy
