#pragma once

#include <cstdint>

#include "libmeg/kernels/cuda_access.h"
#include "libmeg/kernels/float_type.h"

struct CUstream_st;

namespace meg::kernels {

/// Lookups of a row that are summed one after another.
inline constexpr int64_t kLookupsOfPart = 256;

/// The gradient of a table whose rows were looked up: each row of the table gets the sum of its
/// rows of `gradients`, in fp32 and in one order: of each kLookupsOfPart of its lookups, in the
/// order of the lookups, and then of these sums. So several blocks can share a row that is looked
/// up often, and every device and run gives the same bits.
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

/// The numbers of scratch memory that the computation on a GPU needs.
int64_t embedding_backward_scratch(const EmbeddingBackward& call);

/// Queues the computation on `stream` (a cudaStream_t) of the current device, to which all pointers
/// must belong. Uses no atomics, so that every run gives the same bits. scratch: as many numbers as
/// embedding_backward_scratch() says, as cudaMalloc gives them. Returns the CUDA runtime's error
/// code of the launch, 0 for success.
int embedding_backward_cuda(const EmbeddingBackward& call, int64_t* scratch, CUstream_st* stream,
                            CudaAccess access = CudaAccess::kVectorized);

}  // namespace meg::kernels
