#include <type_traits>

#include "libmeg/kernels/internal/cuda_floats.cuh"
#include "libmeg/kernels/internal/cuda_launch.cuh"
#include "libmeg/kernels/optimizer/multi_tensor_adam.h"

namespace meg::kernels {
namespace {

constexpr int kThreads = 256;

struct AdamElement {
  float master;
  float exp_avg;
  float exp_avg_sq;
};

// Every operation is rounded by itself, in the order of the CPU kernel: the same bits, and memory,
// not arithmetic, is what the kernel waits for.
__device__ AdamElement adam_update(const AdamStep& step, AdamGroup group, float gradient,
                                   AdamElement at) {
  gradient = __fmul_rn(gradient, __fmul_rn(step.inverse_loss_scale, step.clip_coefficient));
  if (!step.adam_w_mode) {
    gradient = __fadd_rn(gradient, __fmul_rn(at.master, group.weight_decay));
  }
  at.exp_avg = __fadd_rn(__fmul_rn(at.exp_avg, step.beta1),
                         __fmul_rn(gradient, __fsub_rn(1.0f, step.beta1)));
  at.exp_avg_sq = __fadd_rn(__fmul_rn(at.exp_avg_sq, step.beta2),
                            __fmul_rn(__fmul_rn(gradient, __fsub_rn(1.0f, step.beta2)), gradient));
  const float root = __fsqrt_rn(__fmul_rn(at.exp_avg_sq, __fdiv_rn(1.0f, step.bias_correction2)));
  float update = __fdiv_rn(__fmul_rn(at.exp_avg, __fdiv_rn(1.0f, step.bias_correction1)),
                           __fadd_rn(root, step.eps));
  if (step.adam_w_mode) update = __fadd_rn(update, __fmul_rn(at.master, group.weight_decay));
  at.master = __fsub_rn(at.master, __fmul_rn(update, group.learning_rate));
  return at;
}

/// kSize elements of any FloatType, as fp32.
template <int kSize>
__device__ Pack<float, kSize> read_floats(const void* elements, FloatType type, int64_t begin) {
  if (type == FloatType::kFloat32) {
    return *reinterpret_cast<const Pack<float, kSize>*>(static_cast<const float*>(elements) +
                                                        begin);
  }
  Pack<float, kSize> values;
  if (type == FloatType::kFloat16) {
    const auto narrow =
        *reinterpret_cast<const Pack<__half, kSize>*>(static_cast<const __half*>(elements) + begin);
#pragma unroll
    for (int k = 0; k < kSize; ++k) values.values[k] = to_float(narrow.values[k]);
  } else {
    const auto narrow = *reinterpret_cast<const Pack<__nv_bfloat16, kSize>*>(
        static_cast<const __nv_bfloat16*>(elements) + begin);
#pragma unroll
    for (int k = 0; k < kSize; ++k) values.values[k] = to_float(narrow.values[k]);
  }
  return values;
}

template <class T, int kSize>
__device__ void write_narrowed(const Pack<float, kSize>& values, void* elements, int64_t begin) {
  Pack<T, kSize> narrow;
#pragma unroll
  for (int k = 0; k < kSize; ++k) narrow.values[k] = from_float<T>(values.values[k]);
  // Write one word: a pack of 16-bit types is assigned element by element.
  using Word = std::conditional_t<kSize == 1, uint16_t, uint64_t>;
  static_assert(sizeof(Word) == sizeof(narrow));
  *reinterpret_cast<Word*>(static_cast<T*>(elements) + begin) =
      reinterpret_cast<const Word&>(narrow);
}

template <int kSize>
__device__ void update_pack(const AdamTensor& tensor, const AdamStep& step, AdamGroup group,
                            int64_t begin) {
  using P = Pack<float, kSize>;
  const P gradient = read_floats<kSize>(tensor.gradient, tensor.gradient_type, begin);
  P master = *reinterpret_cast<const P*>(tensor.master + begin);
  P exp_avg = *reinterpret_cast<const P*>(tensor.exp_avg + begin);
  P exp_avg_sq = *reinterpret_cast<const P*>(tensor.exp_avg_sq + begin);
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    const AdamElement next =
        adam_update(step, group, gradient.values[k],
                    {master.values[k], exp_avg.values[k], exp_avg_sq.values[k]});
    master.values[k] = next.master;
    exp_avg.values[k] = next.exp_avg;
    exp_avg_sq.values[k] = next.exp_avg_sq;
  }
  *reinterpret_cast<P*>(tensor.master + begin) = master;
  *reinterpret_cast<P*>(tensor.exp_avg + begin) = exp_avg;
  *reinterpret_cast<P*>(tensor.exp_avg_sq + begin) = exp_avg_sq;
  if (tensor.weight == nullptr) return;
  if (tensor.weight_type == FloatType::kFloat16) {
    write_narrowed<__half>(master, tensor.weight, begin);
  } else if (tensor.weight_type == FloatType::kBFloat16) {
    write_narrowed<__nv_bfloat16>(master, tensor.weight, begin);
  }
}

/// Whether every array begins at a multiple of 16 bytes; null does.
__device__ bool starts_at_16_bytes(const AdamTensor& tensor) {
  const uintptr_t all =
      reinterpret_cast<uintptr_t>(tensor.gradient) | reinterpret_cast<uintptr_t>(tensor.master) |
      reinterpret_cast<uintptr_t>(tensor.exp_avg) | reinterpret_cast<uintptr_t>(tensor.exp_avg_sq) |
      reinterpret_cast<uintptr_t>(tensor.weight);
  return all % 16 == 0;
}

// A block a chunk; chunks begin at multiples of 16 bytes where their tensor does.
template <bool kInPacks>
__global__ void __launch_bounds__(kThreads)
    adam_kernel(const AdamTensor* tensors, int64_t tensor_count, const AdamStep step) {
  const ChunkPlace place = place_of_chunk(tensors, tensor_count, blockIdx.x);
  const AdamTensor tensor = tensors[place.tensor];
  const AdamGroup group = step.groups[tensor.group];
  int64_t done = 0;
  if (kInPacks && starts_at_16_bytes(tensor)) {
    done = place.count / 4 * 4;
    for (int64_t i = 4 * static_cast<int64_t>(threadIdx.x); i < done; i += 4 * kThreads) {
      update_pack<4>(tensor, step, group, place.begin + i);
    }
  }
  for (int64_t i = done + threadIdx.x; i < place.count; i += kThreads) {
    update_pack<1>(tensor, step, group, place.begin + i);
  }
}

}  // namespace

int multi_tensor_adam_cuda(const AdamTensor* tensors, int64_t tensor_count, const AdamStep& step,
                           int64_t chunk_count, CUstream_st* stream, CudaAccess access) {
  if (chunk_count == 0) return cudaSuccess;
  return access == CudaAccess::kVectorized
             ? launch<adam_kernel<true>>(chunk_count, kThreads, stream, tensors, tensor_count, step)
             : launch<adam_kernel<false>>(chunk_count, kThreads, stream, tensors, tensor_count,
                                          step);
}

}  // namespace meg::kernels
