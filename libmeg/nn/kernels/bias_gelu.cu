#include <algorithm>

#include "libmeg/nn/kernels/bias_gelu.h"

namespace meg::nn {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 4096;  // each thread then walks on by the size of the grid

__global__ void bias_gelu_kernel(const float* input, const float* bias, float* output,
                                 int64_t count, int64_t columns) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const float x = input[i] + bias[i % columns];
    const float inner = 0.79788456f * x * (1.0f + 0.044715f * x * x);
    output[i] = x * 0.5f * (1.0f + tanhf(inner));
  }
}

}  // namespace

int bias_gelu_cuda(const float* input, const float* bias, float* output, int64_t rows,
                   int64_t columns, CUstream_st* stream) {
  const int64_t count = rows * columns;
  if (count == 0) return cudaSuccess;
  const int64_t blocks = std::min((count + kThreads - 1) / kThreads, kMostBlocks);
  bias_gelu_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(input, bias, output,
                                                                           count, columns);
  return cudaGetLastError();
}

}  // namespace meg::nn
