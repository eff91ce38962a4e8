#pragma once

#include <cstdint>

#include "libmeg/kernels/cuda_rung.h"
#include "libmeg/kernels/float_type.h"

struct CUstream_st;

namespace meg::kernels {

/// The gradient of a table whose rows were looked up: each row of the table gets the sum of its
/// rows of `gradients`, in fp32 and in order.
struct EmbeddingBackward {
  FloatType type = FloatType::kFloat32;  ///< of gradients
  /// (count): the rows of the table that were looked up; nullptr: 0 to period - 1, repeatedly.
  const int64_t* ids = nullptr;
  int64_t period = 0;               ///< Without ids: divides count.
  const void* gradients = nullptr;  ///< (count, columns), dense
  /// (.., columns): rows that were not looked up stay unchanged. With `adds`, fp32, and the sums
  /// are added; otherwise of `type` and overwritten.
  void* grad_weight = nullptr;
  bool adds = false;
  int64_t count = 0;
  int64_t columns = 0;
};

void embedding_backward_cpu(const EmbeddingBackward& call);

/// Queues the computation on `stream` (a cudaStream_t) of the current device, to which all pointers
/// must belong. Uses no atomics, so that every run gives the same bits. scratch: 2 * count numbers,
/// unused without ids. Returns the CUDA runtime's error code of the launch, 0 for success.
int embedding_backward_cuda(const EmbeddingBackward& call, int64_t* scratch, CUstream_st* stream,
                            CudaRung rung = CudaRung::kVector);

}  // namespace meg::kernels
