#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>

#include "tests/emulation/grid.h"

// Stands for CUDA's header of this name where kernels are compiled for the host: what libmeg's
// kernels and their tests use of it, under CUDA's names.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// One array for all blocks, because they run one after the other. `used`: so that the compiler
// expects that it is written from elsewhere, too.
#define __shared__ static __attribute__((used))

using uint3 = meg::emulation::Extent;

struct dim3 : meg::emulation::Extent {
  constexpr dim3(unsigned of_x = 1, unsigned of_y = 1, unsigned of_z = 1)
      : Extent{of_x, of_y, of_z} {}
};

inline const uint3& threadIdx = meg::emulation::thread_index;
inline const uint3& blockIdx = meg::emulation::block_index;
inline const uint3& blockDim = meg::emulation::block_extent;
inline const uint3& gridDim = meg::emulation::grid_extent;
constexpr int warpSize = meg::emulation::kWarpSize;

// Synchronization and the exchange between the lanes of a warp.

inline void __syncthreads(std::source_location at = std::source_location::current()) {
  meg::emulation::wait_for_block({"__syncthreads", at});
}

inline void __syncwarp(unsigned mask = 0xffffffffu,
                       std::source_location at = std::source_location::current()) {
  meg::emulation::meet_lanes(mask, 0, {"__syncwarp", at});
}

inline unsigned __ballot_sync(unsigned mask, bool vote,
                              std::source_location at = std::source_location::current()) {
  const auto& votes = meg::emulation::meet_lanes(mask, vote, {"__ballot_sync", at});
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < meg::emulation::kWarpSize; ++lane) {
    ballot |= static_cast<unsigned>(votes[lane]) << lane;
  }
  return ballot;
}

namespace meg::emulation {

template <class T>
T value_of_lane(unsigned mask, T value, unsigned from, const Call& call) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  word = word_of_lane(mask, word, from, call);
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

}  // namespace meg::emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int from,
              std::source_location at = std::source_location::current()) {
  const unsigned lane = static_cast<unsigned>(from) % meg::emulation::kWarpSize;
  return meg::emulation::value_of_lane(mask, value, lane, {"__shfl_sync", at});
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance,
                  std::source_location at = std::source_location::current()) {
  const unsigned lane = meg::emulation::lane_index() ^ static_cast<unsigned>(distance);
  return meg::emulation::value_of_lane(mask, value, lane, {"__shfl_xor_sync", at});
}

/// Lanes near the last one get their own value.
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance,
                   std::source_location at = std::source_location::current()) {
  const unsigned own = meg::emulation::lane_index();
  const unsigned lane = own + distance < meg::emulation::kWarpSize ? own + distance : own;
  return meg::emulation::value_of_lane(mask, value, lane, {"__shfl_down_sync", at});
}

// Only one thread runs at a time.

template <class T>
T atomicAdd(T* at, T value) {
  const T old = *at;
  *at = old + value;
  return old;
}

template <class T>
T atomicCAS(T* at, T expected, T value) {
  const T old = *at;
  if (std::memcmp(&old, &expected, sizeof(T)) == 0) *at = value;
  return old;
}

// Arithmetic. The host's rounds each operation by itself (-ffp-contract=off).

inline float __fadd_rn(float a, float b) { return a + b; }

inline float __fsub_rn(float a, float b) { return a - b; }

inline float __fmul_rn(float a, float b) { return a * b; }

inline float __fdiv_rn(float a, float b) { return a / b; }

inline float __fsqrt_rn(float a) { return std::sqrt(a); }

/// Computes as the GPU does, with the error of the product's rounding.
inline float __expf(float x) { return std::exp2(x * 1.4426950408889634f); }

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

// The runtime.

using cudaStream_t = struct CUstream_st*;

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorLaunchFailure = 719,
};

enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
};

namespace meg::emulation {

extern cudaError_t last_error;

/// A launch's configuration and where it was called, which is where its kernel's name stands.
struct Configuration {
  Configuration(const cudaLaunchConfig_t* of_launch,
                std::source_location where = std::source_location::current())
      : launch(*of_launch), at(where) {}

  /// "[with auto kKernel = forward<float>; ...]" -> "forward<float>"
  std::string kernel_name() const {
    const std::string caller = at.function_name();
    const size_t begin = caller.find("kKernel = ");
    if (begin == std::string::npos) return caller;
    return caller.substr(begin + 10, caller.find_first_of(";]", begin) - begin - 10);
  }

  cudaLaunchConfig_t launch;
  std::source_location at;
};

inline bool is_possible(const cudaLaunchConfig_t& launch) {
  const dim3 blocks = launch.gridDim, threads = launch.blockDim;
  const uint64_t in_block = uint64_t{threads.x} * threads.y * threads.z;
  const uint64_t in_grid = uint64_t{blocks.x} * blocks.y * blocks.z;
  return in_block > 0 && in_block <= 1024 && in_grid > 0 && in_grid < uint64_t{1} << 31;
}

}  // namespace meg::emulation

inline cudaError_t cudaGetLastError() {
  return std::exchange(meg::emulation::last_error, cudaSuccess);
}

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(meg::emulation::Configuration configuration,
                               void (*kernel)(Parameters...), Arguments&&... arguments) {
  using meg::emulation::last_error;
  const cudaLaunchConfig_t& launch = configuration.launch;
  if (!meg::emulation::is_possible(launch)) return last_error = cudaErrorInvalidConfiguration;
  const meg::emulation::Grid grid{configuration.kernel_name(), launch.gridDim, launch.blockDim,
                                  [&] { kernel(static_cast<Parameters>(arguments)...); }};
  return last_error = meg::emulation::run(grid) ? cudaSuccess : cudaErrorLaunchFailure;
}

inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

/// Allocates exactly this size, so that the address sanitizer sees what goes beyond; filled with
/// NaN.
inline cudaError_t cudaMalloc(void** pointer, size_t size) {
  constexpr size_t kAlignment = 256;
  if (posix_memalign(pointer, kAlignment, size) != 0) return cudaErrorMemoryAllocation;
  std::memset(*pointer, 0xff, size);
  return cudaSuccess;
}

inline cudaError_t cudaFree(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}

inline cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind) {
  if (size > 0) std::memcpy(to, from, size);
  return cudaSuccess;
}
