#pragma once

#include <cstdint>

#include "libmeg/kernels/cuda_rung.h"
#include "libmeg/kernels/float_type.h"

struct CUstream_st;

namespace meg::kernels {

/// The gradient of a table of which rows were looked up: each of its rows gets the sum of those
/// rows of `gradients` that belong to it, in fp32 and in their order.
struct EmbeddingBackward {
  FloatType type = FloatType::kFloat32;  ///< of gradients
  /// (count): which row of the table was looked up; nullptr: 0 to period - 1, again and again.
  const int64_t* ids = nullptr;
  int64_t period = 0;               ///< Without ids: divides count.
  const void* gradients = nullptr;  ///< (count, columns), dense
  /// (.., columns): rows that were not looked up stay as they are. With adds fp32, to which the
  /// sums are added; else of `type`, and they are written.
  void* grad_weight = nullptr;
  bool adds = false;
  int64_t count = 0;
  int64_t columns = 0;
};

void embedding_backward_cpu(const EmbeddingBackward& call);

/// Queued on `stream` (a cudaStream_t) of the current device, where all pointers lie. No atomics:
/// the same bits each time. scratch: 2 * count numbers, unused without ids. Returns the CUDA
/// runtime's error code of the launch, 0 where it went well.
int embedding_backward_cuda(const EmbeddingBackward& call, int64_t* scratch, CUstream_st* stream,
                            CudaRung rung = CudaRung::kVector);

}  // namespace meg::kernels
