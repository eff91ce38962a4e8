#include "libmeg/kernels/internal/cuda_floats.cuh"
#include "libmeg/kernels/internal/cuda_launch.cuh"
#include "libmeg/kernels/optimizer/gradient_statistics.h"

namespace meg::kernels {
namespace {

constexpr int kThreads = 256;

/// All threads' parts put together, in a fixed order; valid in thread 0.
__device__ GradientStatistics total_in_block(GradientStatistics part) {
  __shared__ double sums[kThreads];
  __shared__ int64_t zeros[kThreads];
  sums[threadIdx.x] = part.sum_of_squares;
  zeros[threadIdx.x] = part.num_zeros;
  __syncthreads();
  for (unsigned distance = kThreads / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) {
      sums[threadIdx.x] += sums[threadIdx.x + distance];
      zeros[threadIdx.x] += zeros[threadIdx.x + distance];
    }
    __syncthreads();
  }
  part.sum_of_squares = sums[0];
  part.num_zeros = zeros[0];
  return part;
}

template <class T>
__device__ void add_element(T element, GradientStatistics& part) {
  const float value = to_float(element);
  part.sum_of_squares += static_cast<double>(value) * static_cast<double>(value);
  part.num_zeros += value == 0.0f;
}

template <class T>
__device__ GradientStatistics part_of_thread(const T* gradient, int64_t count) {
  using P = Pack<T, kPackSize<T>>;
  GradientStatistics part;
  const int64_t packs = starts_at_16_bytes(gradient) ? count / kPackSize<T> : 0;
  for (int64_t i = threadIdx.x; i < packs; i += kThreads) {
    const P pack = reinterpret_cast<const P*>(gradient)[i];
#pragma unroll
    for (int k = 0; k < kPackSize<T>; ++k) add_element(pack.values[k], part);
  }
  for (int64_t i = packs * kPackSize<T> + threadIdx.x; i < count; i += kThreads) {
    add_element(gradient[i], part);
  }
  return part;
}

// A block a chunk; chunks begin at multiples of 16 bytes where their tensor does.
__global__ void __launch_bounds__(kThreads)
    chunk_kernel(const GradientTensor* tensors, int64_t tensor_count, float scale,
                 GradientStatistics* of_chunks) {
  const ChunkPlace place = place_of_chunk(tensors, tensor_count, blockIdx.x);
  const GradientTensor tensor = tensors[place.tensor];
  GradientStatistics part;
  if (tensor.type == FloatType::kFloat16) {
    part = part_of_thread(static_cast<const __half*>(tensor.gradient) + place.begin, place.count);
  } else if (tensor.type == FloatType::kBFloat16) {
    part = part_of_thread(static_cast<const __nv_bfloat16*>(tensor.gradient) + place.begin,
                          place.count);
  } else {
    part = part_of_thread(static_cast<const float*>(tensor.gradient) + place.begin, place.count);
  }
  part = total_in_block(part);
  part.sum_of_squares *= static_cast<double>(scale) * static_cast<double>(scale);
  if (threadIdx.x == 0) of_chunks[blockIdx.x] = part;
}

// One block.
__global__ void __launch_bounds__(kThreads)
    total_kernel(const GradientStatistics* of_chunks, int64_t chunk_count,
                 GradientStatistics* total) {
  GradientStatistics part;
  for (int64_t i = threadIdx.x; i < chunk_count; i += kThreads) {
    part.sum_of_squares += of_chunks[i].sum_of_squares;
    part.num_zeros += of_chunks[i].num_zeros;
  }
  part = total_in_block(part);
  if (threadIdx.x == 0) *total = part;
}

}  // namespace

int gradient_statistics_cuda(const GradientTensor* tensors, int64_t tensor_count, float scale,
                             GradientStatistics* of_chunks, int64_t chunk_count,
                             GradientStatistics* total, CUstream_st* stream) {
  if (chunk_count > 0) {
    const int error = launch<chunk_kernel>(chunk_count, kThreads, stream, tensors, tensor_count,
                                           scale, of_chunks);
    if (error != cudaSuccess) return error;
  }
  return launch<total_kernel>(1, kThreads, stream, of_chunks, chunk_count, total);
}

}  // namespace meg::kernels
