#pragma once

#include <cstdint>

#include "libmeg/kernels/cuda_access.h"
#include "libmeg/kernels/float_type.h"

struct CUstream_st;

namespace meg::kernels {

/// Cross entropy over the vocabulary: losses[row] = log(sum_c e^logits[row][c]) -
/// logits[row][label]. Columns that pad the vocabulary take part like any other, as in Megatron.
/// Mirrors Megatron-LM megatron/core/tensor_parallel/cross_entropy.py on one rank, in fp32 even if
/// the logits are 16-bit.
struct SoftmaxCrossEntropyForward {
  FloatType type = FloatType::kFloat32;  ///< of logits
  const void* logits = nullptr;          ///< (rows, columns), dense
  const int64_t* labels = nullptr;       ///< (rows), each in [0, columns)
  float* losses = nullptr;               ///< (rows)
  float* maxima = nullptr;               ///< (rows), kept for backward: the maximum of the logits
  float* sums = nullptr;                 ///< (rows), kept for backward: sum of e^(logit - maximum)
  int64_t rows = 0;
  int64_t columns = 0;
};

/// grad_logits = (softmax(logits) - onehot(label)) * grad_losses[row], where grad_losses already
/// includes the loss mask and the loss scale. The maximum and the sum are kept separately instead
/// of as one log-sum-exp, because rounding that to fp32 would shift a whole row by up to 1e-6.
struct SoftmaxCrossEntropyBackward {
  FloatType type = FloatType::kFloat32;  ///< of logits and grad_logits
  const void* logits = nullptr;          ///< (rows, columns)
  const int64_t* labels = nullptr;       ///< (rows)
  const float* maxima = nullptr;         ///< (rows), from forward
  const float* sums = nullptr;           ///< (rows), from forward
  const float* grad_losses = nullptr;    ///< (rows)
  void* grad_logits = nullptr;           ///< (rows, columns): logits themselves, or apart
  int64_t rows = 0;
  int64_t columns = 0;
};

/// Computes rows [row_begin, row_end), so that the caller can divide the rows over threads; results
/// do not depend on the division. Returns -1, or the first row whose label is outside [0, columns),
/// in which case nothing was written.
int64_t softmax_cross_entropy_forward_cpu(const SoftmaxCrossEntropyForward& call, int64_t row_begin,
                                          int64_t row_end);

/// Computes rows [row_begin, row_end) of the gradient. Labels must be those that forward accepted.
void softmax_cross_entropy_backward_cpu(const SoftmaxCrossEntropyBackward& call, int64_t row_begin,
                                        int64_t row_end);

/// Computes the losses and, with grad_losses (rows), the gradient into grad_logits (rows, columns;
/// the logits themselves, or apart) in a single pass over each row, for callers that know
/// grad_losses beforehand. Gives the same bits and the same return value as the two calls.
int64_t softmax_cross_entropy_forward_backward_cpu(const SoftmaxCrossEntropyForward& call,
                                                   const float* grad_losses, void* grad_logits,
                                                   int64_t row_begin, int64_t row_end);

/// All rows on a GPU: device pointers, queued on `stream` (a cudaStream_t) without waiting. A label
/// outside [0, columns) makes that row's loss NaN and *label_error (on the device, zeroed by the
/// caller) 1. Returns the CUDA runtime's error code of the launch, 0 for success.
/// kBuiltWithoutCuda in a build without CUDA.
int softmax_cross_entropy_forward_cuda(const SoftmaxCrossEntropyForward& call, int* label_error,
                                       CUstream_st* stream,
                                       CudaAccess access = CudaAccess::kVectorized);

/// All rows of the gradient on a GPU, in the same way.
int softmax_cross_entropy_backward_cuda(const SoftmaxCrossEntropyBackward& call,
                                        CUstream_st* stream,
                                        CudaAccess access = CudaAccess::kVectorized);

/// Both in one launch, which reads each row from memory once.
int softmax_cross_entropy_forward_backward_cuda(const SoftmaxCrossEntropyForward& call,
                                                const float* grad_losses, void* grad_logits,
                                                int* label_error, CUstream_st* stream,
                                                CudaAccess access = CudaAccess::kVectorized);

}  // namespace meg::kernels
