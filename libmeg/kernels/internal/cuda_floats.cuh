#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "libmeg/kernels/cuda_access.h"
#include "libmeg/kernels/float_type.h"

namespace meg::kernels {

__device__ inline float to_float(float value) { return value; }

__device__ inline float to_float(__half value) { return __half2float(value); }

__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class T>
__device__ T from_float(float value);

template <>
__device__ inline float from_float<float>(float value) {
  return value;
}

template <>
__device__ inline __half from_float<__half>(float value) {
  return __float2half_rn(value);
}

template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

/// e^x: exact to a unit or two for fp32, as near as 16-bit results can tell for the others.
template <class T>
__device__ float exponential(float x) {
  if constexpr (sizeof(T) == sizeof(float)) return expf(x);
  return __expf(x);
}

/// kSize elements of T that are read and written as one: 16 bytes, or a single element.
template <class T, int kSize>
struct alignas(kSize * sizeof(T)) Pack {
  T values[kSize];
};

/// Elements of T in 16 bytes.
template <class T>
constexpr int kPackSize = 16 / static_cast<int>(sizeof(T));

__host__ __device__ inline bool starts_at_16_bytes(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

/// Calls `call` with a value of the device type that `type` stands for, and returns its result.
template <class Call>
int with_float_type(FloatType type, Call call) {
  if (type == FloatType::kFloat16) return call(__half());
  if (type == FloatType::kBFloat16) return call(__nv_bfloat16());
  return call(float());
}

}  // namespace meg::kernels
