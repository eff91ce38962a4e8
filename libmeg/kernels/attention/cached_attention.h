#pragma once

#include <cstdint>

#include "libmeg/kernels/cuda_access.h"
#include "libmeg/kernels/float_type.h"

struct CUstream_st;

namespace meg::kernels {

/// The heads of several rows, each of them dense: element i of one is at row * row_stride + head *
/// head_stride + i.
struct HeadRows {
  const void* data = nullptr;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
};

/// Attention of one new token in each of several sequences over their cached keys and values:
/// output[row] = softmax(scale * queries[row] * keys^T) * values, each head with the keys of its
/// group. Arithmetic in fp32, rounded once to the arrays' type.
struct CachedAttention {
  FloatType type = FloatType::kFloat32;  ///< of queries, keys, values and output
  HeadRows queries;                      ///< (rows, heads, depth)
  /// (rows, groups, depth): each row's own, newest key and value, which are added to the cache.
  HeadRows new_keys, new_values;
  void* keys = nullptr;            ///< (slots, groups, capacity, depth), dense
  void* values = nullptr;          ///< as keys
  const int64_t* slots = nullptr;  ///< (rows): the slot of each row's sequence, all different
  /// (rows): the number of keys to which each row attends, counted from the slot's first and
  /// including its own; 0: nothing is written for the row.
  const int64_t* lengths = nullptr;
  void* output = nullptr;  ///< (rows, heads, depth), dense
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t groups = 0;  ///< divides heads
  int64_t capacity = 0;
  int64_t depth = 0;
  float scale = 1;
};

/// Computes units [begin, end) of rows * groups, where groups vary fastest, so that the caller can
/// divide them over threads; results do not depend on the division.
void cached_attention_cpu(const CachedAttention& call, int64_t begin, int64_t end);

/// The maximum depth of a head for the GPU's kernel.
constexpr int64_t kMaxCachedDepth = 512;

/// The number of fp32 elements of scratch memory that the GPU's kernel needs for sequences of at
/// most `longest` keys.
int64_t cached_attention_scratch(const CachedAttention& call, int64_t longest);

/// Queues the computation on `stream` (a cudaStream_t) of the current device, to which all pointers
/// must belong. A row's result depends neither on other rows nor on `longest`, which no length may
/// exceed. Returns the CUDA runtime's error code of the launch, 0 for success.
int cached_attention_cuda(const CachedAttention& call, int64_t longest, float* scratch,
                          CUstream_st* stream, CudaAccess access = CudaAccess::kVectorized);

}  // namespace meg::kernels
