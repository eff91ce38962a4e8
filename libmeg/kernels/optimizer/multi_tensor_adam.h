#pragma once

#include <cmath>
#include <cstdint>

#include "libmeg/kernels/cuda_access.h"
#include "libmeg/kernels/float_type.h"
#include "libmeg/kernels/optimizer/tensor_chunks.h"

struct CUstream_st;

namespace meg::kernels {

/// One tensor of the list that a step updates; all arrays hold `count` elements, dense.
struct AdamTensor {
  const void* gradient = nullptr;  ///< still multiplied by the loss scale, not clipped
  FloatType gradient_type = FloatType::kFloat32;
  float* master = nullptr;  ///< the fp32 weight
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  void* weight = nullptr;  ///< the model's 16-bit weight, which is written; or null
  FloatType weight_type = FloatType::kBFloat16;
  int group = 0;            ///< index into AdamStep::groups
  int64_t count = 0;        ///< elements
  int64_t first_chunk = 0;  ///< set by number_chunks()
};

/// A parameter group of Megatron's (weight decay or not, learning rate scaled or not).
struct AdamGroup {
  float learning_rate = 0;
  float weight_decay = 0;
};

constexpr int kMaxAdamGroups = 16;

/// One step. The gradient is multiplied by (inverse_loss_scale * clip_coefficient), which for a
/// loss scale that is a power of two equals unscaling and then clipping it; then, in fp32:
///   exp_avg = beta1 * exp_avg + (1 - beta1) * gradient
///   exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * gradient * gradient
///   update = exp_avg * (1 / bias_correction1) / (sqrt(exp_avg_sq * (1 / bias_correction2)) + eps)
///   master = master - learning_rate * (update + weight_decay * master)
/// Without adam_w_mode the decay is added to the gradient instead. The caller must skip steps that
/// found an infinite gradient.
/// Mirrors apex csrc/multi_tensor_adam.cu, which divides by the bias corrections.
struct AdamStep {
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float bias_correction1 = 1;  ///< adam_bias_correction(beta1, step)
  float bias_correction2 = 1;  ///< adam_bias_correction(beta2, step)
  float inverse_loss_scale = 1;
  float clip_coefficient = 1;  ///< 1 if the norm is below the limit
  bool adam_w_mode = true;
  AdamGroup groups[kMaxAdamGroups];
};

/// 1 - beta^step, rounded to fp32 at the end. step: 1 for the first update.
inline float adam_bias_correction(float beta, int64_t step) {
  return static_cast<float>(1.0 - std::pow(double{beta}, static_cast<double>(step)));
}

/// Updates chunks [chunk_begin, chunk_end) of the list, so that the caller can divide them over
/// threads. No fused multiply-add: every processor, and the GPU, gives the same bits.
void multi_tensor_adam_cpu(const AdamTensor* tensors, int64_t tensor_count, const AdamStep& step,
                           int64_t chunk_begin, int64_t chunk_end);

/// Updates all chunks in one launch on a GPU: `tensors` and what they point to are on the device;
/// queued on `stream` (a cudaStream_t) without waiting.
/// Returns the CUDA runtime's error code of the launch, 0 for success.
/// kBuiltWithoutCuda in a build without CUDA.
int multi_tensor_adam_cuda(const AdamTensor* tensors, int64_t tensor_count, const AdamStep& step,
                           int64_t chunk_count, CUstream_st* stream,
                           CudaAccess access = CudaAccess::kVectorized);

}  // namespace meg::kernels
