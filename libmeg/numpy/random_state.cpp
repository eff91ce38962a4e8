#include "libmeg/numpy/random_state.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

// A shuffle of n values is n - 1 draws and n - 1 swaps at random places. The draws depend on
// nothing but the generator, so they are made ahead, kTargets at a time and vectorized, and memory
// fetches the places of the next batch while those of this one are swapped. The order of the draws
// and of the swaps stays that of numpy's loop (from the last value down), so the result is the same
// to the bit. docs/performance.md, "Index caches beside megatron-core", has the measurements.

namespace meg::numpy {
namespace {

constexpr uint64_t kMaxInWord = std::numeric_limits<uint32_t>::max();

/// Targets drawn at once: while one half of them is swapped, memory fetches the other. 128 and 512
/// were as fast, 64 and 1024 slower.
constexpr size_t kTargets = 256;

/// Asks a Stop now and then: a question may take longer than many swaps.
class StopPoll {
 public:
  StopPoll(const RandomState::Stop& stop, size_t values) : stop_(stop), next_(values) {}

  /// left: values that are not shuffled yet, fewer at each call.
  bool stops_at(size_t left) {
    if (left > next_) return false;
    next_ = left - std::min(left, kValuesBetweenQuestions);
    return stop_ && stop_();
  }

 private:
  static constexpr size_t kValuesBetweenQuestions = size_t{1} << 20;

  const RandomState::Stop& stop_;
  size_t next_;
};

}  // namespace

RandomState::RandomState(uint32_t seed, InstructionSet set) : kernels_(&random_kernels(set)) {
  for (uint32_t i = 0; i < kRandomStateWords; ++i) {
    // MT19937's init_genrand: numpy seeds so where the seed is one number.
    state_[i] = seed;
    seed = 1812433253U * (seed ^ (seed >> 30)) + i + 1;
  }
}

uint32_t RandomState::next() {
  if (position_ == kRandomStateWords) {
    kernels_->refill(state_.data(), words_.data());
    position_ = 0;
  }
  return words_[position_++];
}

uint64_t RandomState::bounded(uint64_t max) {
  if (max == 0) return 0;
  const uint64_t mask = ~uint64_t{0} >> std::countl_zero(max);
  while (true) {
    uint64_t word = next();
    if (max > kMaxInWord) word = (word << 32) | next();
    if ((word & mask) <= max) return word & mask;
  }
}

std::span<const uint32_t> RandomState::draw_targets(uint32_t max, std::span<uint32_t> targets) {
  // A batch ends where the bound loses a bit, as the mask changes there.
  const uint32_t same_bits = max - bit_mask_of(max) / 2;
  targets = targets.first(std::min<size_t>(targets.size(), same_bits));
  size_t found = 0;
  while (found < targets.size()) {
    if (position_ == kRandomStateWords) {
      kernels_->refill(state_.data(), words_.data());
      position_ = 0;
    }
    const RandomDraw draw =
        kernels_->draw(std::span(words_).subspan(position_), max - static_cast<uint32_t>(found),
                       targets.subspan(found));
    position_ += draw.words;
    found += draw.targets;
  }
  return targets;
}

template <class T>
bool RandomState::shuffle_values(std::span<T> values, const Stop& stop) {
  StopPoll poll(stop, values.size());
  size_t i = values.size();
  // Bounds of more than 32 bits take two words a draw; no other values are that far up.
  for (; i > kMaxInWord + 1; --i) {
    if (poll.stops_at(i)) return false;
    std::swap(values[i - 1], values[bounded(i - 1)]);
  }
  std::array<uint32_t, kTargets> halves[2];
  std::span<const uint32_t> targets;  // of the values from i - 1 down
  size_t drawn = i;                   // values from here on have their target
  for (size_t half = 0; i > 1; half ^= 1) {
    if (poll.stops_at(i)) return false;
    std::span<const uint32_t> ahead;
    if (drawn > 1) ahead = draw_targets(static_cast<uint32_t>(drawn - 1), halves[half]);
    drawn -= ahead.size();
    for (size_t k = 0; k < std::max(ahead.size(), targets.size()); ++k) {
      // Prefetch into the second-level cache (locality 2): the first-level one cannot wait for so
      // many lines at once. That alone took the document index from 0.46 to 0.24 s.
      if (k < ahead.size()) __builtin_prefetch(&values[ahead[k]], 0, 2);
      if (k < targets.size()) std::swap(values[--i], values[targets[k]]);
    }
    targets = ahead;
  }
  return true;
}

bool RandomState::skip_shuffle(size_t values, const Stop& stop) {
  StopPoll poll(stop, values);
  size_t i = values;
  for (; i > kMaxInWord + 1; --i) {
    if (poll.stops_at(i)) return false;
    bounded(i - 1);
  }
  std::array<uint32_t, kTargets> targets;
  while (i > 1) {
    if (poll.stops_at(i)) return false;
    i -= draw_targets(static_cast<uint32_t>(i - 1), targets).size();
  }
  return true;
}

bool RandomState::shuffle(std::span<int32_t> values, const Stop& stop) {
  return shuffle_values(values, stop);
}

bool RandomState::shuffle(std::span<uint32_t> values, const Stop& stop) {
  return shuffle_values(values, stop);
}

bool RandomState::shuffle(std::span<int64_t> values, const Stop& stop) {
  return shuffle_values(values, stop);
}

}  // namespace meg::numpy
