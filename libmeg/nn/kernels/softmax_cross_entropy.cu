#include <algorithm>

#include "libmeg/nn/kernels/cuda_floats.cuh"
#include "libmeg/nn/kernels/cuda_launch.cuh"
#include "libmeg/nn/kernels/softmax_cross_entropy.h"

namespace meg::nn {
namespace {

constexpr int kWarp = 32;
constexpr int kMostThreads = 1024;

/// Part of a row: its largest logit, and the sum of e^(logit - maximum).
struct Softmax {
  float maximum;
  float sum;
};

__device__ Softmax empty_softmax() { return {-INFINITY, 0.0f}; }

/// The factor that brings a sum from one maximum to another; 1 also between two -infinities.
template <class T>
__device__ float rescale(float from, float to) {
  return from == to ? 1.0f : exponential<T>(from - to);
}

template <class T>
__device__ Softmax merged(Softmax a, Softmax b) {
  const float maximum = fmaxf(a.maximum, b.maximum);
  return {maximum, a.sum * rescale<T>(a.maximum, maximum) + b.sum * rescale<T>(b.maximum, maximum)};
}

/// Takes kSize more logits in; the sum is rescaled at most once for all of them. By value: through
/// a reference the compiler reads element by element.
template <class T, int kSize>
__device__ Softmax taken_in(Softmax softmax, const Pack<T, kSize> logits) {
  float maximum = softmax.maximum;
#pragma unroll
  for (int k = 0; k < kSize; ++k) maximum = fmaxf(maximum, to_float(logits.values[k]));
  const float shift = maximum == -INFINITY ? 0.0f : maximum;
  float sum = softmax.sum * rescale<T>(softmax.maximum, maximum);
#pragma unroll
  for (int k = 0; k < kSize; ++k) sum += exponential<T>(to_float(logits.values[k]) - shift);
  return {maximum, sum};
}

template <class T>
__device__ Softmax merged_in_warp(Softmax softmax) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const Softmax other = {__shfl_xor_sync(0xffffffffu, softmax.maximum, distance),
                           __shfl_xor_sync(0xffffffffu, softmax.sum, distance)};
    softmax = merged<T>(softmax, other);
  }
  return softmax;
}

/// All threads' parts put together, in a fixed order; valid in thread 0. blockDim.x is a multiple
/// of 32.
template <class T>
__device__ Softmax merged_in_block(Softmax softmax) {
  __shared__ Softmax of_warps[kMostThreads / kWarp];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  softmax = merged_in_warp<T>(softmax);
  if (lane == 0) of_warps[warp] = softmax;
  __syncthreads();
  if (warp == 0) {
    const int warps = static_cast<int>(blockDim.x) / kWarp;
    softmax = merged_in_warp<T>(lane < warps ? of_warps[lane] : empty_softmax());
  }
  return softmax;
}

// A block a row, which is read once.
template <class T, int kSize>
__global__ void forward_kernel(SoftmaxCrossEntropyForward call, int* label_error) {
  using P = Pack<T, kSize>;
  const int64_t packs = call.columns / kSize;
  const int64_t row = blockIdx.x;
  const T* logits = static_cast<const T*>(call.logits) + row * call.columns;
  Softmax softmax = empty_softmax();
  for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
    softmax = taken_in(softmax, reinterpret_cast<const P*>(logits)[i]);
  }
  softmax = merged_in_block<T>(softmax);
  if (threadIdx.x > 0) return;
  const int64_t label = call.labels[row];
  const bool inside = label >= 0 && label < call.columns;
  if (!inside) *label_error = 1;
  call.maxima[row] = softmax.maximum;
  call.sums[row] = softmax.sum;
  call.losses[row] = inside ? logf(softmax.sum) + (softmax.maximum - to_float(logits[label])) : NAN;
}

// A block a row. In place too: an element is read and written by the same thread.
template <class T, int kSize>
__global__ void backward_kernel(SoftmaxCrossEntropyBackward call) {
  using P = Pack<T, kSize>;
  const int64_t packs = call.columns / kSize;
  const int64_t row = blockIdx.x;
  const P* logits =
      reinterpret_cast<const P*>(static_cast<const T*>(call.logits) + row * call.columns);
  P* gradients = reinterpret_cast<P*>(static_cast<T*>(call.grad_logits) + row * call.columns);
  const float grad_loss = call.grad_losses[row];
  const float scale = grad_loss / call.sums[row];
  const float maximum = call.maxima[row];
  const int64_t label = call.labels[row];
  for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
    const P of_logits = logits[i];
    P of_gradients;
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      float gradient = exponential<T>(to_float(of_logits.values[k]) - maximum) * scale;
      if (i * kSize + k == label) gradient -= grad_loss;
      of_gradients.values[k] = from_float<T>(gradient);
    }
    gradients[i] = of_gradients;
  }
}

/// A multiple of 32, so that a thread has a few packs to do.
unsigned threads_for(int64_t packs) {
  const int64_t wanted = (packs / 4 + kWarp - 1) / kWarp * kWarp;
  return static_cast<unsigned>(std::clamp<int64_t>(wanted, 4 * kWarp, kMostThreads));
}

template <class T, int kSize>
int launch_forward(const SoftmaxCrossEntropyForward& call, int* label_error, cudaStream_t stream) {
  return launch<forward_kernel<T, kSize>>(call.rows, threads_for(call.columns / kSize), stream,
                                          call, label_error);
}

template <class T, int kSize>
int launch_backward(const SoftmaxCrossEntropyBackward& call, cudaStream_t stream) {
  return launch<backward_kernel<T, kSize>>(call.rows, threads_for(call.columns / kSize), stream,
                                           call);
}

}  // namespace

int softmax_cross_entropy_forward_cuda(const SoftmaxCrossEntropyForward& call, int* label_error,
                                       CUstream_st* stream, CudaRung rung) {
  if (call.rows == 0) return cudaSuccess;
  return with_float_type(call.type, [&](auto zero) -> int {
    using T = decltype(zero);
    const bool in_packs = rung == CudaRung::kVector && call.columns % kPackSize<T> == 0 &&
                          starts_at_16_bytes(call.logits);
    return in_packs ? launch_forward<T, kPackSize<T>>(call, label_error, stream)
                    : launch_forward<T, 1>(call, label_error, stream);
  });
}

int softmax_cross_entropy_backward_cuda(const SoftmaxCrossEntropyBackward& call,
                                        CUstream_st* stream, CudaRung rung) {
  if (call.rows == 0) return cudaSuccess;
  return with_float_type(call.type, [&](auto zero) -> int {
    using T = decltype(zero);
    const bool in_packs = rung == CudaRung::kVector && call.columns % kPackSize<T> == 0 &&
                          starts_at_16_bytes(call.logits) && starts_at_16_bytes(call.grad_logits);
    return in_packs ? launch_backward<T, kPackSize<T>>(call, stream)
                    : launch_backward<T, 1>(call, stream);
  });
}

}  // namespace meg::nn
