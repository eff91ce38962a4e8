#pragma once

#include <cstdint>

#include "libmeg/kernels/cuda_access.h"
#include "libmeg/kernels/float_type.h"

struct CUstream_st;

namespace meg::kernels {

/// output[row][column] = silu(gate) * up, where a row of the input has the gates of all columns,
/// followed by their ups; silu(x) = x / (1 + e^-x). Arithmetic in fp32, rounded once to the arrays'
/// type.
/// Mirrors Megatron-LM megatron/core/fusions/fused_bias_swiglu.py: swiglu, swiglu_back. The input
/// already includes the bias.
struct SwigluForward {
  FloatType type = FloatType::kFloat32;  ///< of all arrays
  const void* input = nullptr;           ///< (rows, 2 * columns), dense
  void* output = nullptr;                ///< (rows, columns), dense, apart from the input
  int64_t rows = 0;
  int64_t columns = 0;
};

struct SwigluBackward {
  FloatType type = FloatType::kFloat32;  ///< of all arrays
  const void* grad_output = nullptr;     ///< (rows, columns)
  const void* input = nullptr;           ///< (rows, 2 * columns)
  void* grad_input = nullptr;            ///< (rows, 2 * columns): the input itself, or apart
  int64_t rows = 0;
  int64_t columns = 0;
};

/// Computes rows [row_begin, row_end), so that the caller can divide the rows over threads; results
/// do not depend on the division.
void swiglu_forward_cpu(const SwigluForward& call, int64_t row_begin, int64_t row_end);
void swiglu_backward_cpu(const SwigluBackward& call, int64_t row_begin, int64_t row_end);

/// All rows on a GPU: device pointers, queued on `stream` (a cudaStream_t) without waiting.
/// Returns the CUDA runtime's error code of the launch, 0 for success. kBuiltWithoutCuda in a build
/// without CUDA.
int swiglu_forward_cuda(const SwigluForward& call, CUstream_st* stream,
                        CudaAccess access = CudaAccess::kVectorized);
int swiglu_backward_cuda(const SwigluBackward& call, CUstream_st* stream,
                         CudaAccess access = CudaAccess::kVectorized);

}  // namespace meg::kernels
