#include "libmeg/kernels/internal/cuda_floats.cuh"
#include "libmeg/kernels/internal/cuda_launch.cuh"
#include "libmeg/kernels/swiglu.h"

namespace meg::kernels {
namespace {

constexpr int kThreads = 256;

// The limit keeps e^-x finite; beyond it the result is 0 anyway.
template <class T>
__device__ float sigmoid(float x) {
  return 1.0f / (1.0f + exponential<T>(fminf(-x, 88.0f)));
}

/// Where a thread's packs lie.
struct PackPlace {
  int64_t output;  ///< and of the output's gradient
  int64_t gate, up;

  // kSize elements a thread; no pack reaches over the end of a row.
  __device__ PackPlace(int64_t i, int64_t packs_in_row)
      : output(i), gate(i / packs_in_row * packs_in_row + i), up(gate + packs_in_row) {}
};

template <class T, int kSize>
__global__ void forward_kernel(const SwigluForward call, int64_t packs) {
  using P = Pack<T, kSize>;
  const int64_t i = thread_in_grid();
  if (i >= packs) return;
  const PackPlace place(i, call.columns / kSize);
  const P gate = static_cast<const P*>(call.input)[place.gate];
  const P up = static_cast<const P*>(call.input)[place.up];
  P output;
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    const float g = to_float(gate.values[k]);
    output.values[k] = from_float<T>(g * sigmoid<T>(g) * to_float(up.values[k]));
  }
  static_cast<P*>(call.output)[place.output] = output;
}

template <class T, int kSize>
__global__ void backward_kernel(const SwigluBackward call, int64_t packs) {
  using P = Pack<T, kSize>;
  const int64_t i = thread_in_grid();
  if (i >= packs) return;
  const PackPlace place(i, call.columns / kSize);
  const P gradient = static_cast<const P*>(call.grad_output)[place.output];
  const P gate = static_cast<const P*>(call.input)[place.gate];
  const P up = static_cast<const P*>(call.input)[place.up];
  P grad_gate, grad_up;
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    const float d = to_float(gradient.values[k]), g = to_float(gate.values[k]);
    const float s = sigmoid<T>(g);
    const float slope = s * (g * (1.0f - s) + 1.0f);
    grad_gate.values[k] = from_float<T>(d * to_float(up.values[k]) * slope);
    grad_up.values[k] = from_float<T>(d * (g * s));
  }
  static_cast<P*>(call.grad_input)[place.gate] = grad_gate;
  static_cast<P*>(call.grad_input)[place.up] = grad_up;
}

template <auto kKernel, class Call>
int launch_packs(const Call& call, int size, cudaStream_t stream) {
  const int64_t packs = call.rows * call.columns / size;
  return launch<kKernel>(blocks_for(packs, kThreads), kThreads, stream, call, packs);
}

}  // namespace

int swiglu_forward_cuda(const SwigluForward& call, CUstream_st* stream, CudaAccess access) {
  if (call.rows == 0 || call.columns == 0) return cudaSuccess;
  return with_float_type(call.type, [&](auto zero) -> int {
    using T = decltype(zero);
    constexpr int kSize = kPackSize<T>;
    const bool in_packs = access == CudaAccess::kVectorized && call.columns % kSize == 0 &&
                          starts_at_16_bytes(call.input) && starts_at_16_bytes(call.output);
    return in_packs ? launch_packs<forward_kernel<T, kSize>>(call, kSize, stream)
                    : launch_packs<forward_kernel<T, 1>>(call, 1, stream);
  });
}

int swiglu_backward_cuda(const SwigluBackward& call, CUstream_st* stream, CudaAccess access) {
  if (call.rows == 0 || call.columns == 0) return cudaSuccess;
  return with_float_type(call.type, [&](auto zero) -> int {
    using T = decltype(zero);
    constexpr int kSize = kPackSize<T>;
    const bool in_packs = access == CudaAccess::kVectorized && call.columns % kSize == 0 &&
                          starts_at_16_bytes(call.grad_output) && starts_at_16_bytes(call.input) &&
                          starts_at_16_bytes(call.grad_input);
    return in_packs ? launch_packs<backward_kernel<T, kSize>>(call, kSize, stream)
                    : launch_packs<backward_kernel<T, 1>>(call, 1, stream);
  });
}

}  // namespace meg::kernels
