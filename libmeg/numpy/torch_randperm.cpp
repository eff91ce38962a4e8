#include "libmeg/numpy/torch_randperm.h"

#include <numeric>
#include <utility>

#include "libmeg/numpy/random_state.h"

// Mirrors PyTorch aten/src/ATen/native/TensorFactories.cpp: randperm_cpu, whose two branches give
// different orders. torch's CPU generator is MT19937 with the same seeding as numpy's RandomState,
// so that class serves both.

namespace meg::numpy {
namespace {

/// Each place takes one of the numbers not yet placed. The remainder favours small numbers a
/// little; below kWideRandperm torch accepts that, and so must this.
void draw_from_the_rest(RandomState& random, std::span<uint32_t> out) {
  std::iota(out.begin(), out.end(), 0U);
  for (size_t i = 0; i + 1 < out.size(); ++i) {
    std::swap(out[i], out[i + random.next() % (out.size() - i)]);
  }
}

/// Each number goes to a place among those filled so far and sends what was there to the end.
void insert_among_the_first(RandomState& random, std::span<uint32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t high = random.next();
    const size_t place = ((high << 32) | random.next()) % (i + 1);
    out[i] = out[place];
    out[place] = static_cast<uint32_t>(i);
  }
}

}  // namespace

void torch_randperm(uint64_t seed, std::span<uint32_t> out) {
  // The engine takes the seed's low 32 bits.
  RandomState random(static_cast<uint32_t>(seed));
  if (out.size() < kWideRandperm) {
    draw_from_the_rest(random, out);
  } else {
    insert_among_the_first(random, out);
  }
}

}  // namespace meg::numpy
