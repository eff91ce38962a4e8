#include <algorithm>

#include "libmeg/kernels/embedding_backward.h"
#include "libmeg/kernels/internal/cuda_floats.cuh"
#include "libmeg/kernels/internal/cuda_launch.cuh"

namespace meg::kernels {
namespace {

constexpr int kThreads = 256;

/// Threads that share the comparisons of one lookup with all others: a part of a warp.
constexpr int kSharing = 16;

// Sorts by counting, stably: the place of a lookup among all follows from those with a smaller id,
// and with the same id before it. Some thousands of lookups are compared with each other sooner
// than a radix sort has run its passes. lengths: of the lookups of one id, at the first of them in
// the order; 0 at the others.
__global__ void order_kernel(const int64_t* ids, int64_t count, int64_t* order, int64_t* lengths) {
  const int64_t i = thread_in_grid() / kSharing;
  const int lane = static_cast<int>(threadIdx.x) % kSharing;
  const int64_t id = i < count ? ids[i] : 0;
  // 32 bits: so many lookups would take days.
  int smaller = 0, same_before = 0, same = 0;
#pragma unroll 8
  for (int64_t j = lane; j < count; j += kSharing) {
    const int64_t other = ids[j];
    smaller += other < id;
    same += other == id;
    same_before += other == id && j < i;
  }
  for (int distance = kSharing / 2; distance > 0; distance /= 2) {
    smaller += __shfl_xor_sync(0xffffffffu, smaller, distance);
    same += __shfl_xor_sync(0xffffffffu, same, distance);
    same_before += __shfl_xor_sync(0xffffffffu, same_before, distance);
  }
  if (lane != 0 || i >= count) return;
  order[smaller + same_before] = i;
  lengths[smaller + same_before] = same_before == 0 ? same : 0;
}

/// Where a block finds the lookups of its id.
struct Lookups {
  const int64_t* order;    ///< nullptr: they stand `period` apart.
  const int64_t* lengths;  ///< Unused without order.

  __device__ int64_t length(const EmbeddingBackward& call, int64_t block) const {
    return order == nullptr ? call.count / call.period : lengths[block];
  }

  __device__ int64_t at(const EmbeddingBackward& call, int64_t block, int64_t i) const {
    return order == nullptr ? block + i * call.period : order[block + i];
  }
};

// A block a place in the order, or an id of the period; those that begin no id have nothing to do.
template <class T, int kSize>
__global__ void sum_kernel(EmbeddingBackward call, Lookups lookups) {
  using P = Pack<T, kSize>;
  const int64_t block = blockIdx.x;
  const int64_t length = lookups.length(call, block);
  if (length == 0) return;
  const int64_t packs = call.columns / kSize;
  const int64_t id = call.ids == nullptr ? block : call.ids[lookups.at(call, block, 0)];
  for (int64_t column = threadIdx.x; column < packs; column += blockDim.x) {
    Pack<float, kSize> sum = {};
#pragma unroll 8
    for (int64_t i = 0; i < length; ++i) {
      const int64_t row = lookups.at(call, block, i);
      const P gradient = static_cast<const P*>(call.gradients)[row * packs + column];
#pragma unroll
      for (int k = 0; k < kSize; ++k) sum.values[k] += to_float(gradient.values[k]);
    }
    const int64_t place = id * packs + column;
    if (call.adds) {
      auto* const weights = static_cast<Pack<float, kSize>*>(call.grad_weight);
      const Pack<float, kSize> before = weights[place];
#pragma unroll
      for (int k = 0; k < kSize; ++k) sum.values[k] += before.values[k];
      weights[place] = sum;
      continue;
    }
    P rounded;
#pragma unroll
    for (int k = 0; k < kSize; ++k) rounded.values[k] = from_float<T>(sum.values[k]);
    static_cast<P*>(call.grad_weight)[place] = rounded;
  }
}

template <class T, int kSize>
int launch_sums(const EmbeddingBackward& call, Lookups lookups, cudaStream_t stream) {
  const int64_t packs = call.columns / kSize;
  const int64_t threads = std::clamp<int64_t>((packs + 31) / 32 * 32, 32, 1024);
  return launch<sum_kernel<T, kSize>>(call.ids == nullptr ? call.period : call.count,
                                      static_cast<unsigned>(threads), stream, call, lookups);
}

}  // namespace

int embedding_backward_cuda(const EmbeddingBackward& call, int64_t* scratch, CUstream_st* stream,
                            CudaRung rung) {
  if (call.count == 0 || call.columns == 0) return cudaSuccess;
  Lookups lookups = {nullptr, nullptr};
  if (call.ids != nullptr) {
    const int error =
        launch<order_kernel>(blocks_for(call.count * kSharing, kThreads), kThreads, stream,
                             call.ids, call.count, scratch, scratch + call.count);
    if (error != cudaSuccess) return error;
    lookups = {scratch, scratch + call.count};
  }
  return with_float_type(call.type, [&](auto zero) -> int {
    using T = decltype(zero);
    // Twice as wide where sums are fp32 beside 16-bit gradients.
    const bool in_packs = rung == CudaRung::kVector && call.columns % kPackSize<T> == 0 &&
                          starts_at_16_bytes(call.gradients) &&
                          reinterpret_cast<uintptr_t>(call.grad_weight) % 32 == 0;
    return in_packs ? launch_sums<T, kPackSize<T>>(call, lookups, stream)
                    : launch_sums<T, 1>(call, lookups, stream);
  });
}

}  // namespace meg::kernels
