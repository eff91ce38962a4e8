#pragma once

#include <cmath>
#include <cstdint>

#include "libmeg/kernels/float_type.h"
#include "libmeg/kernels/optimizer/tensor_chunks.h"

struct CUstream_st;

namespace meg::kernels {

/// A tensor of the list that gradient_statistics reads.
struct GradientTensor {
  const void* gradient = nullptr;  ///< dense
  FloatType type = FloatType::kFloat32;
  int64_t count = 0;        ///< elements
  int64_t first_chunk = 0;  ///< set by number_chunks()
};

/// Statistics of a training step's gradients after they are unscaled: gradient * scale.
struct GradientStatistics {
  double sum_of_squares = 0;  ///< not finite if a gradient is not
  int64_t num_zeros = 0;      ///< counted before unscaling, which may round to 0

  /// Whether a gradient was infinite or NaN: squares of finite fp32 never overflow their fp64 sum.
  bool found_inf() const { return !std::isfinite(sum_of_squares); }
};

/// Computes chunks [chunk_begin, chunk_end) of the list, each into its own element of `of_chunks`
/// (as many as number_chunks() counted), so that the caller can divide them over threads. scale:
/// the inverse of the loss scale. Mirrors Megatron-LM megatron/core/optimizer/clip_grads.py:
/// get_grad_norm_fp32 and count_zeros_fp32 on one rank; the caller rounds the norm to fp32 as
/// multi_tensor_l2norm does.
void gradient_statistics_cpu(const GradientTensor* tensors, int64_t tensor_count, float scale,
                             GradientStatistics* of_chunks, int64_t chunk_begin, int64_t chunk_end);

/// Combines the statistics of the chunks in order, so that the result is the same for any number of
/// threads.
GradientStatistics total_statistics(const GradientStatistics* of_chunks, int64_t chunk_count);

/// The same on a GPU, in one launch over all tensors and one over the chunks: tensors, of_chunks
/// (chunk_count) and total (1) are on the device; queued on `stream` (a cudaStream_t) without
/// waiting. Sums are taken in a fixed order, which differs from the CPU's.
/// Returns the CUDA runtime's error code of the launches, 0 for success.
/// kBuiltWithoutCuda in a build without CUDA.
int gradient_statistics_cuda(const GradientTensor* tensors, int64_t tensor_count, float scale,
                             GradientStatistics* of_chunks, int64_t chunk_count,
                             GradientStatistics* total, CUstream_st* stream);

}  // namespace meg::kernels
