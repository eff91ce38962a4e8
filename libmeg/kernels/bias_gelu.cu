#include "libmeg/kernels/bias_gelu.h"
#include "libmeg/kernels/internal/cuda_floats.cuh"
#include "libmeg/kernels/internal/cuda_launch.cuh"

namespace meg::kernels {
namespace {

constexpr int kThreads = 256;

// 0.5 * (1 + tanh(u)) = 1 / (1 + e^(-2u)), which loses no digits where tanh is near -1. The limit
// keeps e^(-2u) finite: beyond it the result is 0 anyway.
template <class T>
__device__ float gelu_exponential(float x) {
  return exponential<T>(fminf(-2.0f * 0.79788456f * x * (1.0f + 0.044715f * x * x), 88.0f));
}

template <class T>
__device__ float gelu(float x) {
  return x / (1.0f + gelu_exponential<T>(x));
}

template <class T>
__device__ float gelu_slope(float x) {
  const float e = gelu_exponential<T>(x);
  const float gate = 1.0f / (1.0f + e);
  const float inner_slope = 0.79788456f + 0.1070322243f * x * x;
  return 2.0f * x * (gate * (e * gate)) * inner_slope + gate;
}

// kSize elements a thread; no pack reaches over the end of a row.
template <class T, int kSize>
__global__ void forward_kernel(const T* input, const T* bias, T* output, int64_t packs,
                               int64_t packs_in_row) {
  using P = Pack<T, kSize>;
  const int64_t i = thread_in_grid();
  if (i >= packs) return;
  const P x = reinterpret_cast<const P*>(input)[i];
  const P b = reinterpret_cast<const P*>(bias)[i % packs_in_row];
  P y;
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    y.values[k] = from_float<T>(gelu<T>(to_float(x.values[k]) + to_float(b.values[k])));
  }
  reinterpret_cast<P*>(output)[i] = y;
}

template <class T, int kSize>
__global__ void backward_kernel(const T* grad_output, const T* input, const T* bias, T* grad_input,
                                int64_t packs, int64_t packs_in_row) {
  using P = Pack<T, kSize>;
  const int64_t i = thread_in_grid();
  if (i >= packs) return;
  const P g = reinterpret_cast<const P*>(grad_output)[i];
  const P x = reinterpret_cast<const P*>(input)[i];
  const P b = reinterpret_cast<const P*>(bias)[i % packs_in_row];
  P y;
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    const float slope = gelu_slope<T>(to_float(x.values[k]) + to_float(b.values[k]));
    y.values[k] = from_float<T>(slope * to_float(g.values[k]));
  }
  reinterpret_cast<P*>(grad_input)[i] = y;
}

template <class T, int kSize>
int launch_forward(const BiasGeluForward& call, cudaStream_t stream) {
  const int64_t packs = call.rows * call.columns / kSize;
  return launch<forward_kernel<T, kSize>>(
      blocks_for(packs, kThreads), kThreads, stream, static_cast<const T*>(call.input),
      static_cast<const T*>(call.bias), static_cast<T*>(call.output), packs, call.columns / kSize);
}

template <class T, int kSize>
int launch_backward(const BiasGeluBackward& call, cudaStream_t stream) {
  const int64_t packs = call.rows * call.columns / kSize;
  return launch<backward_kernel<T, kSize>>(
      blocks_for(packs, kThreads), kThreads, stream, static_cast<const T*>(call.grad_output),
      static_cast<const T*>(call.input), static_cast<const T*>(call.bias),
      static_cast<T*>(call.grad_input), packs, call.columns / kSize);
}

}  // namespace

int bias_gelu_forward_cuda(const BiasGeluForward& call, CUstream_st* stream, CudaAccess access) {
  if (call.rows == 0 || call.columns == 0) return cudaSuccess;
  return with_float_type(call.type, [&](auto zero) -> int {
    using T = decltype(zero);
    const bool in_packs = access == CudaAccess::kVectorized && call.columns % kPackSize<T> == 0 &&
                          starts_at_16_bytes(call.input) && starts_at_16_bytes(call.bias) &&
                          starts_at_16_bytes(call.output);
    return in_packs ? launch_forward<T, kPackSize<T>>(call, stream)
                    : launch_forward<T, 1>(call, stream);
  });
}

int bias_gelu_backward_cuda(const BiasGeluBackward& call, CUstream_st* stream, CudaAccess access) {
  if (call.rows == 0 || call.columns == 0) return cudaSuccess;
  return with_float_type(call.type, [&](auto zero) -> int {
    using T = decltype(zero);
    const bool in_packs = access == CudaAccess::kVectorized && call.columns % kPackSize<T> == 0 &&
                          starts_at_16_bytes(call.grad_output) && starts_at_16_bytes(call.input) &&
                          starts_at_16_bytes(call.bias) && starts_at_16_bytes(call.grad_input);
    return in_packs ? launch_backward<T, kPackSize<T>>(call, stream)
                    : launch_backward<T, 1>(call, stream);
  });
}

}  // namespace meg::kernels
