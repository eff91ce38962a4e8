#include "libmeg/numpy/random_kernels.h"

namespace meg::numpy {
namespace {

void refill(uint32_t* state, uint32_t* words) {
  // Refill in place. Up to here the word 397 further on is still the old one; from here on it has
  // wrapped round to one that this refill has made already.
  constexpr size_t kAround = kRandomStateWords - kRandomShift;
  for (size_t i = 0; i < kAround; ++i) {
    state[i] = twisted_word(state[i], state[i + 1], state[i + kRandomShift]);
  }
  for (size_t i = kAround; i + 1 < kRandomStateWords; ++i) {
    state[i] = twisted_word(state[i], state[i + 1], state[i - kAround]);
  }
  constexpr size_t kLast = kRandomStateWords - 1;
  state[kLast] = twisted_word(state[kLast], state[0], state[kRandomShift - 1]);
  for (size_t i = 0; i < kRandomStateWords; ++i) words[i] = tempered_word(state[i]);
}

RandomDraw draw(std::span<const uint32_t> words, uint32_t max, std::span<uint32_t> targets) {
  RandomDraw done;
  draw_plainly(words, bit_mask_of(max), max, targets, done);
  return done;
}

}  // namespace

const RandomKernels kPortableRandomKernels{refill, draw};

const RandomKernels& random_kernels(InstructionSet set) {
  switch (set) {
#ifdef __x86_64__
    case InstructionSet::kAvx512:
      return kAvx512RandomKernels;
    case InstructionSet::kAvx2:
      return kAvx2RandomKernels;
#endif
    default:
      return kPortableRandomKernels;
  }
}

}  // namespace meg::numpy
