#include <algorithm>

#include "libmeg/kernels/internal/cuda_floats.cuh"
#include "libmeg/kernels/internal/cuda_launch.cuh"
#include "libmeg/kernels/softmax_cross_entropy.h"

namespace meg::kernels {
namespace {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;

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
  __shared__ Softmax of_warps[kMaxThreads / kWarp];
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

/// The block's row of an array of `columns` columns.
template <class P, class Array>
__device__ P* own_row(Array* array, int64_t columns) {
  constexpr int64_t kElements = sizeof(P) / sizeof(P::values[0]);
  return static_cast<P*>(array) + blockIdx.x * (columns / kElements);
}

/// Valid in thread 0.
template <class T, int kSize>
__device__ Softmax softmax_of_row(const Pack<T, kSize>* logits, int64_t packs) {
  Softmax softmax = empty_softmax();
  for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
    softmax = taken_in(softmax, logits[i]);
  }
  return merged_in_block<T>(softmax);
}

/// Runs in thread 0.
template <class T>
__device__ void write_loss(const SoftmaxCrossEntropyForward& call, Softmax softmax,
                           int* label_error) {
  const int64_t row = blockIdx.x;
  const int64_t label = call.labels[row];
  const bool inside = label >= 0 && label < call.columns;
  if (!inside) *label_error = 1;
  call.maxima[row] = softmax.maximum;
  call.sums[row] = softmax.sum;
  const T* logits = static_cast<const T*>(call.logits) + row * call.columns;
  call.losses[row] = inside ? logf(softmax.sum) + (softmax.maximum - to_float(logits[label])) : NAN;
}

/// Runs in all threads, in place too: an element is read and written by the same thread.
template <class T, int kSize>
__device__ void write_gradients(const Pack<T, kSize>* logits, Pack<T, kSize>* gradients,
                                int64_t packs, Softmax softmax, int64_t label, float grad_loss) {
  const float scale = grad_loss / softmax.sum;
  for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
    const Pack<T, kSize> of_logits = logits[i];
    Pack<T, kSize> of_gradients;
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      float gradient = exponential<T>(to_float(of_logits.values[k]) - softmax.maximum) * scale;
      if (i * kSize + k == label) gradient -= grad_loss;
      of_gradients.values[k] = from_float<T>(gradient);
    }
    gradients[i] = of_gradients;
  }
}

// A block a row, which is read once.
template <class T, int kSize>
__global__ void forward_kernel(SoftmaxCrossEntropyForward call, int* label_error) {
  using P = Pack<T, kSize>;
  const P* logits = own_row<const P>(call.logits, call.columns);
  const Softmax softmax = softmax_of_row(logits, call.columns / kSize);
  if (threadIdx.x == 0) write_loss<T>(call, softmax, label_error);
}

// A block a row.
template <class T, int kSize>
__global__ void backward_kernel(SoftmaxCrossEntropyBackward call) {
  using P = Pack<T, kSize>;
  const int64_t row = blockIdx.x;
  write_gradients(own_row<const P>(call.logits, call.columns),
                  own_row<P>(call.grad_logits, call.columns), call.columns / kSize,
                  {call.maxima[row], call.sums[row]}, call.labels[row], call.grad_losses[row]);
}

// A block a row, which is in the cache when it is read again. The loss is written before the
// barrier: its logit may be overwritten after it.
template <class T, int kSize>
__global__ void forward_backward_kernel(SoftmaxCrossEntropyForward call, const float* grad_losses,
                                        void* grad_logits, int* label_error) {
  using P = Pack<T, kSize>;
  __shared__ Softmax of_row;
  const P* logits = own_row<const P>(call.logits, call.columns);
  const int64_t packs = call.columns / kSize;
  const Softmax softmax = softmax_of_row(logits, packs);
  if (threadIdx.x == 0) {
    write_loss<T>(call, softmax, label_error);
    of_row = softmax;
  }
  __syncthreads();
  write_gradients(logits, own_row<P>(grad_logits, call.columns), packs, of_row,
                  call.labels[blockIdx.x], grad_losses[blockIdx.x]);
}

/// A multiple of 32, so that a thread has a few packs to do.
unsigned threads_for(int64_t packs) {
  const int64_t wanted = (packs / 4 + kWarp - 1) / kWarp * kWarp;
  return static_cast<unsigned>(std::clamp<int64_t>(wanted, 4 * kWarp, kMaxThreads));
}

template <class T, int kSize>
int launch_forward(const SoftmaxCrossEntropyForward& call, int* label_error, cudaStream_t stream) {
  return launch<forward_kernel<T, kSize>>(call.rows, threads_for(call.columns / kSize), stream,
                                          call, label_error);
}

template <class T, int kSize>
int launch_forward_backward(const SoftmaxCrossEntropyForward& call, const float* grad_losses,
                            void* grad_logits, int* label_error, cudaStream_t stream) {
  return launch<forward_backward_kernel<T, kSize>>(call.rows, threads_for(call.columns / kSize),
                                                   stream, call, grad_losses, grad_logits,
                                                   label_error);
}

template <class T, int kSize>
int launch_backward(const SoftmaxCrossEntropyBackward& call, cudaStream_t stream) {
  return launch<backward_kernel<T, kSize>>(call.rows, threads_for(call.columns / kSize), stream,
                                           call);
}

}  // namespace

int softmax_cross_entropy_forward_cuda(const SoftmaxCrossEntropyForward& call, int* label_error,
                                       CUstream_st* stream, CudaAccess access) {
  if (call.rows == 0) return cudaSuccess;
  return with_float_type(call.type, [&](auto zero) -> int {
    using T = decltype(zero);
    const bool in_packs = access == CudaAccess::kVectorized && call.columns % kPackSize<T> == 0 &&
                          starts_at_16_bytes(call.logits);
    return in_packs ? launch_forward<T, kPackSize<T>>(call, label_error, stream)
                    : launch_forward<T, 1>(call, label_error, stream);
  });
}

int softmax_cross_entropy_backward_cuda(const SoftmaxCrossEntropyBackward& call,
                                        CUstream_st* stream, CudaAccess access) {
  if (call.rows == 0) return cudaSuccess;
  return with_float_type(call.type, [&](auto zero) -> int {
    using T = decltype(zero);
    const bool in_packs = access == CudaAccess::kVectorized && call.columns % kPackSize<T> == 0 &&
                          starts_at_16_bytes(call.logits) && starts_at_16_bytes(call.grad_logits);
    return in_packs ? launch_backward<T, kPackSize<T>>(call, stream)
                    : launch_backward<T, 1>(call, stream);
  });
}

int softmax_cross_entropy_forward_backward_cuda(const SoftmaxCrossEntropyForward& call,
                                                const float* grad_losses, void* grad_logits,
                                                int* label_error, CUstream_st* stream,
                                                CudaAccess access) {
  if (call.rows == 0) return cudaSuccess;
  return with_float_type(call.type, [&](auto zero) -> int {
    using T = decltype(zero);
    const bool in_packs = access == CudaAccess::kVectorized && call.columns % kPackSize<T> == 0 &&
                          starts_at_16_bytes(call.logits) && starts_at_16_bytes(grad_logits);
    return in_packs
               ? launch_forward_backward<T, kPackSize<T>>(call, grad_losses, grad_logits,
                                                          label_error, stream)
               : launch_forward_backward<T, 1>(call, grad_losses, grad_logits, label_error, stream);
  });
}

}  // namespace meg::kernels
