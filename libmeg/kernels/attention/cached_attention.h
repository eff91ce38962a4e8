#pragma once

#include <cstdint>

#include "libmeg/kernels/cuda_rung.h"
#include "libmeg/kernels/float_type.h"

struct CUstream_st;

namespace meg::kernels {

/// Heads of several rows, each of them dense: element i of one is at row * row_stride + head *
/// head_stride + i.
struct HeadRows {
  const void* data = nullptr;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
};

/// Attention of one new token of each of several sequences over the keys and values that a cache
/// holds of them: output[row] = softmax(scale * queries[row] * keys^T) * values, each head with the
/// keys of its group. Arithmetic in fp32, rounded once to the arrays' type.
struct CachedAttention {
  FloatType type = FloatType::kFloat32;  ///< of queries, keys, values and output
  HeadRows queries;                      ///< (rows, heads, depth)
  /// (rows, groups, depth): each row's own key and value, its last ones, which go into the cache.
  HeadRows new_keys, new_values;
  void* keys = nullptr;            ///< (slots, groups, capacity, depth), dense
  void* values = nullptr;          ///< as keys
  const int64_t* slots = nullptr;  ///< (rows): where each row's sequence lies, no two in one place
  /// (rows): how many keys each row sees, from the slot's first, its own with them; 0: nothing is
  /// written for it.
  const int64_t* lengths = nullptr;
  void* output = nullptr;  ///< (rows, heads, depth), dense
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t groups = 0;  ///< divides heads
  int64_t capacity = 0;
  int64_t depth = 0;
  float scale = 1;
};

/// Units [begin, end) of rows * groups, groups the fastest, so that the caller's threads share
/// them; results do not depend on how.
void cached_attention_cpu(const CachedAttention& call, int64_t begin, int64_t end);

/// The deepest head that the GPU's kernel takes.
constexpr int64_t kMaxCachedDepth = 512;

/// Numbers of fp32 that the GPU's kernel needs besides for sequences of at most `longest` keys.
int64_t cached_attention_scratch(const CachedAttention& call, int64_t longest);

/// Queued on `stream` (a cudaStream_t) of the current device, where all pointers lie. A row's
/// result depends on no other row, nor on `longest`, which no length exceeds. Returns the CUDA
/// runtime's error code of the launch, 0 where it went well.
int cached_attention_cuda(const CachedAttention& call, int64_t longest, float* scratch,
                          CUstream_st* stream, CudaRung rung = CudaRung::kVector);

}  // namespace meg::kernels
