#pragma once

#include <cstddef>

#include "libmeg/base/cpu.h"

namespace meg {

/// Runs of `count` elements from any address to any other; the runs do not overlap.
using FloatKernel = void (*)(const std::byte* from, std::byte* to, size_t count);

/// The four conversions from which the others are composed. Every instruction set gives the same
/// bits: a NaN keeps its sign and the top of its payload and becomes quiet (bfloat16 widens bit for
/// bit).
struct FloatKernels {
  FloatKernel widen_float16;
  FloatKernel widen_bfloat16;
  FloatKernel narrow_to_float16;
  FloatKernel narrow_to_bfloat16;
};

/// The kernels for a set that best_instruction_set() allows.
const FloatKernels& float_kernels(InstructionSet set);

extern const FloatKernels kPortableFloatKernels;

#ifdef __x86_64__
extern const FloatKernels kAvx2FloatKernels;
extern const FloatKernels kAvx512FloatKernels;
#endif

}  // namespace meg
