#pragma once

#include <cstdint>

#include "libmeg/kernels/cuda_access.h"
#include "libmeg/kernels/dropout_mask.h"
#include "libmeg/kernels/float_type.h"

struct CUstream_st;

namespace meg::kernels {

/// The settings of both passes of dropout_add_norm.
struct DropoutAddNorm {
  FloatType type = FloatType::kFloat32;           ///< of all arrays but those of residual_type
  FloatType residual_type = FloatType::kFloat32;  ///< type itself, or fp32
  bool is_rms_norm = false;                       ///< RMSNorm, which has no mean and no bias.
  bool is_1p = false;  ///< The norm multiplies with weight + 1, rounded to `type`.
  float epsilon = 0;
  DropoutMask dropout;  ///< of the branch
  int64_t rows = 0;
  int64_t columns = 0;
};

/// sum = residual + dropout(branch), normalized = norm(sum) * weight + bias, over each row:
/// everything between two sublayers of a transformer layer. Arithmetic in fp32; the norm is taken
/// of what sum was rounded to.
/// Mirrors Megatron-LM megatron/core/fusions/fused_bias_dropout.py, and
/// megatron/core/transformer/torch_norm.py after it.
struct DropoutAddNormForward : DropoutAddNorm {
  const void* branch = nullptr;    ///< (rows, columns), dense; nullptr: sum is residual
  const void* residual = nullptr;  ///< (rows, columns) of residual_type
  const void* weight = nullptr;    ///< (columns); nullptr: nothing is normalized
  const void* bias = nullptr;      ///< (columns); unused by RMSNorm
  void* sum = nullptr;             ///< (rows, columns) of residual_type; unused without a branch
  void* normalized = nullptr;      ///< (rows, columns)
  float* means = nullptr;          ///< (rows), for the backward pass; unused by RMSNorm
  float* rstds = nullptr;          ///< (rows): 1 / the deviations, for the backward pass
};

struct DropoutAddNormBackward : DropoutAddNorm {
  const void* grad_normalized = nullptr;  ///< (rows, columns); nullptr: nothing was normalized
  const void* grad_sum = nullptr;         ///< (rows, columns) of residual_type; nullptr: zeros
  const void* sum = nullptr;              ///< The forward pass's sum, or its residual.
  const void* weight = nullptr;
  const float* means = nullptr;
  const float* rstds = nullptr;
  void* grad_residual = nullptr;  ///< (rows, columns) of residual_type
  void* grad_branch = nullptr;    ///< (rows, columns); nullptr: not needed
  /// (columns) each; unused without grad_normalized, grad_bias also by RMSNorm.
  void* grad_weight = nullptr;
  void* grad_bias = nullptr;
  /// Whether the gradients of weight and bias are fp32 arrays to which this pass adds; otherwise
  /// they are of `type` and are overwritten.
  bool adds_to_gradients = false;
};

/// Computes rows [row_begin, row_end), so that the caller can divide them over threads.
void dropout_add_norm_forward_cpu(const DropoutAddNormForward& call, int64_t row_begin,
                                  int64_t row_end);

void dropout_add_norm_backward_cpu(const DropoutAddNormBackward& call);

/// Queues the computation on `stream` (a cudaStream_t) of the current device, to which all pointers
/// must belong. The bits of a row's result do not depend on the number of rows. Returns the CUDA
/// runtime's error code of the launch, 0 for success.
int dropout_add_norm_forward_cuda(const DropoutAddNormForward& call, CUstream_st* stream,
                                  CudaAccess access = CudaAccess::kVectorized);

/// The number of fp32 elements of scratch memory that the backward pass of such arrays needs.
int64_t dropout_add_norm_scratch(int64_t rows, int64_t columns);

/// scratch: device memory as cudaMalloc gives it. The order of the sums over the rows depends only
/// on the shape.
int dropout_add_norm_backward_cuda(const DropoutAddNormBackward& call, float* scratch,
                                   CUstream_st* stream,
                                   CudaAccess access = CudaAccess::kVectorized);

}  // namespace meg::kernels
