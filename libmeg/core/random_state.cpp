#include "libmeg/core/random_state.h"

#include <bit>
#include <utility>

namespace meg {
namespace {

constexpr size_t kShift = 397;
constexpr uint32_t kUpper = 0x80000000U;
constexpr uint32_t kTwist = 0x9908b0dfU;

uint32_t twisted(uint32_t upper, uint32_t lower) {
  const uint32_t mixed = (upper & kUpper) | (lower & ~kUpper);
  return (mixed >> 1) ^ ((mixed & 1U) != 0 ? kTwist : 0);
}

template <class T>
void shuffle_values(RandomState& random, std::span<T> values) {
  for (size_t i = values.size(); i-- > 1;) {
    std::swap(values[i], values[static_cast<size_t>(random.bounded(i))]);
  }
}

}  // namespace

RandomState::RandomState(uint32_t seed) {
  for (uint32_t i = 0; i < kWords; ++i) {
    state_[i] = seed;
    seed = 1812433253U * (seed ^ (seed >> 30)) + i + 1;
  }
}

void RandomState::refill() {
  for (size_t i = 0; i < kWords; ++i) {
    state_[i] = state_[(i + kShift) % kWords] ^ twisted(state_[i], state_[(i + 1) % kWords]);
  }
  position_ = 0;
}

uint32_t RandomState::next() {
  if (position_ == kWords) refill();
  uint32_t word = state_[position_++];
  word ^= word >> 11;
  word ^= (word << 7) & 0x9d2c5680U;
  word ^= (word << 15) & 0xefc60000U;
  return word ^ (word >> 18);
}

uint64_t RandomState::bounded(uint64_t max) {
  if (max == 0) return 0;
  const uint64_t mask = ~uint64_t{0} >> std::countl_zero(max);
  while (true) {
    uint64_t word = next();
    if (max > 0xffffffffU) word = (word << 32) | next();
    if ((word & mask) <= max) return word & mask;
  }
}

void RandomState::shuffle(std::span<int32_t> values) { shuffle_values(*this, values); }

void RandomState::shuffle(std::span<uint32_t> values) { shuffle_values(*this, values); }

void RandomState::shuffle(std::span<int64_t> values) { shuffle_values(*this, values); }

}  // namespace meg
