#pragma once

#include <cstdint>

struct CUstream_st;

namespace meg::nn {

/// output[row][column] = gelu(input[row][column] + bias[column]), with the tanh form of GELU:
/// gelu(x) = x * 0.5 * (1 + tanh(0.79788456 * x * (1 + 0.044715 * x * x))).
/// input, output: (rows, columns), dense, the same array or apart; bias: (columns).
/// Mirrors Megatron-LM megatron/core/fusions/fused_bias_gelu.py: bias_gelu.
void bias_gelu_cpu(const float* input, const float* bias, float* output, int64_t rows,
                   int64_t columns);

/// The same on a GPU: device pointers, queued on `stream` (a cudaStream_t) without waiting.
/// Returns the CUDA runtime's error code of the launch, 0 for success.
/// Exists only where libmeg was built with CUDA.
int bias_gelu_cuda(const float* input, const float* bias, float* output, int64_t rows,
                   int64_t columns, CUstream_st* stream);

}  // namespace meg::nn
