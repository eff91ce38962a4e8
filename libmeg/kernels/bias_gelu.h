#pragma once

#include <cstdint>

#include "libmeg/kernels/cuda_access.h"
#include "libmeg/kernels/float_type.h"

struct CUstream_st;

namespace meg::kernels {

/// output[row][column] = gelu(input[row][column] + bias[column]), with the tanh form of GELU:
/// gelu(x) = x * 0.5 * (1 + tanh(0.79788456 * x * (1 + 0.044715 * x * x))).
/// Arithmetic in fp32, rounded once to the arrays' type.
/// Mirrors Megatron-LM megatron/core/fusions/fused_bias_gelu.py: bias_gelu, bias_gelu_back. The erf
/// form (--no-bias-gelu-fusion) is not fused there and has no kernel here.
struct BiasGeluForward {
  FloatType type = FloatType::kFloat32;  ///< of all arrays
  const void* input = nullptr;           ///< (rows, columns), dense
  const void* bias = nullptr;            ///< (columns)
  void* output = nullptr;                ///< (rows, columns): input itself, or apart
  int64_t rows = 0;
  int64_t columns = 0;
};

/// grad_input = grad_output * gelu'(input + bias). The bias's gradient is the sum of its rows.
struct BiasGeluBackward {
  FloatType type = FloatType::kFloat32;  ///< of all arrays
  const void* grad_output = nullptr;     ///< (rows, columns)
  const void* input = nullptr;           ///< (rows, columns)
  const void* bias = nullptr;            ///< (columns)
  void* grad_input = nullptr;            ///< (rows, columns): grad_output or input itself, or apart
  int64_t rows = 0;
  int64_t columns = 0;
};

/// Computes rows [row_begin, row_end), so that the caller can divide the rows over threads; results
/// do not depend on the division.
void bias_gelu_forward_cpu(const BiasGeluForward& call, int64_t row_begin, int64_t row_end);
void bias_gelu_backward_cpu(const BiasGeluBackward& call, int64_t row_begin, int64_t row_end);

/// All rows on a GPU: device pointers, queued on `stream` (a cudaStream_t) without waiting.
/// Returns the CUDA runtime's error code of the launch, 0 for success.
/// kBuiltWithoutCuda in a build without CUDA.
int bias_gelu_forward_cuda(const BiasGeluForward& call, CUstream_st* stream,
                           CudaAccess access = CudaAccess::kVectorized);
int bias_gelu_backward_cuda(const BiasGeluBackward& call, CUstream_st* stream,
                            CudaAccess access = CudaAccess::kVectorized);

}  // namespace meg::kernels
