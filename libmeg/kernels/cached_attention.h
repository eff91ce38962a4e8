#pragma once

#include <cstdint>

#include "libmeg/kernels/float_type.h"

namespace meg::kernels {

/// Attention of one new token of each of several sequences over the keys and values that a cache
/// holds of them: output[row] = softmax(scale * query[row] * keys^T) * values, each head with the
/// keys of its group. Arithmetic in fp32, rounded once to the arrays' type.
struct CachedAttention {
  FloatType type = FloatType::kFloat32;  ///< of query, keys, values and output
  const void* query = nullptr;           ///< (rows, heads, depth), dense
  const void* keys = nullptr;            ///< (slots, groups, capacity, depth), dense
  const void* values = nullptr;          ///< as keys
  const int64_t* slots = nullptr;        ///< (rows): where each row's sequence lies
  /// (rows): how many keys each row sees, from the slot's first; 0: its output stays as it is.
  const int64_t* lengths = nullptr;
  void* output = nullptr;  ///< (rows, heads, depth)
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

}  // namespace meg::kernels
