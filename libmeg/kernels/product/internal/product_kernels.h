#pragma once

#include <cstdint>

#include "libmeg/base/cpu.h"

namespace meg::kernels {

/// output[r][c] = sum over d of input[r][d] * weight[c][d], all fp32.
struct ProductCall {
  const float* input = nullptr;   ///< (rows, depth), rows input_stride apart
  const float* weight = nullptr;  ///< (columns, depth), dense
  float* output = nullptr;        ///< (rows, columns), rows output_stride apart
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
  int64_t input_stride = 0;
  int64_t output_stride = 0;
};

/// The inner loops of matrix products with few rows. An output depends only on its own row and
/// column, bit for bit, however many others are computed with it. Unlike CpuLoops these use the
/// fused multiply-add, so that instruction sets differ in the last bits.
struct ProductKernels {
  /// Reads the weight once, in order.
  void (*product)(const ProductCall& call);

  /// output[d] += sum over r of weights[r] * rows[r][d], rows being (count, depth), dense.
  void (*weighted_sum)(const float* weights, const float* rows, int64_t count, int64_t depth,
                       float* output);
};

/// The kernels for a set that best_instruction_set() allows.
const ProductKernels& product_kernels(InstructionSet set);

extern const ProductKernels kPortableProductKernels;

#ifdef __x86_64__
extern const ProductKernels kAvx2ProductKernels;
extern const ProductKernels kAvx512ProductKernels;
#endif

}  // namespace meg::kernels
