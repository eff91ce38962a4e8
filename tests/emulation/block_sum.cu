#include "libmeg/kernels/internal/cuda_launch.cuh"
#include "tests/emulation/block_sum.h"

// The kernel that grid_test.cpp runs: right, and with one thing wrong. A template, as libmeg's are.

namespace meg::emulation {
namespace {

__device__ float sum_of_warp(float value, Fault fault) {
  const unsigned lane = threadIdx.x % 32;
  unsigned mask = 0xffffffffu;
  if (fault == Fault::kNarrowMask) mask = 0x0000ffffu;
  if (fault == Fault::kUnlikeMasks && lane == 7) mask = 0x000000ffu;
  if (fault == Fault::kReadsUnnamed && lane < 16) {
    return __shfl_xor_sync(0x0000ffffu, value, 16);
  }
  if (fault == Fault::kLaneMissing && lane == 7) return value;
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(mask, value, distance);
  }
  return value;
}

template <class T>
__global__ void block_sum_kernel(Fault fault, const T* values, T* sums) {
  __shared__ T of_warps[kBlockSumThreads / 32];
  __shared__ T previous;
  const T sum = sum_of_warp(values[blockIdx.x * blockDim.x + threadIdx.x], fault);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  if (fault == Fault::kEarlyEnd && threadIdx.x == 5) return;
  if (fault == Fault::kTwoBarriers && threadIdx.x < 32) {
    __syncthreads();
  } else if (fault != Fault::kNoBarrier &&
             (fault != Fault::kBarrierOfHalf || threadIdx.x % 64 < 32)) {
    __syncthreads();
  }
  if (threadIdx.x > 0) return;
  T total = fault == Fault::kPreviousBlocksSum ? previous : 0;
  for (const T of_warp : of_warps) total += of_warp;
  sums[blockIdx.x] = total;
  previous = 0;
}

}  // namespace

int block_sum(Fault fault, unsigned blocks, const float* values, float* sums) {
  return kernels::launch<block_sum_kernel<float>>(blocks, kBlockSumThreads, nullptr, fault, values,
                                                  sums);
}

}  // namespace meg::emulation
