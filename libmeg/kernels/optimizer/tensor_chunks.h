#pragma once

#include <cstdint>

#include "libmeg/kernels/host_device.h"

namespace meg::kernels {

/// Multi-tensor kernels divide their work into chunks of this many elements; the last chunk of a
/// tensor may be shorter. Chunks are numbered through all tensors of a list.
constexpr int64_t kChunkElements = 16384;

/// Numbers the chunks: sets every tensor's first_chunk and returns the number of chunks in all.
/// Tensor: has count (elements, >= 0) and first_chunk.
template <class Tensor>
int64_t number_chunks(Tensor* tensors, int64_t tensor_count) {
  int64_t chunks = 0;
  for (int64_t i = 0; i < tensor_count; ++i) {
    tensors[i].first_chunk = chunks;
    chunks += (tensors[i].count + kChunkElements - 1) / kChunkElements;
  }
  return chunks;
}

/// A run of elements of one tensor.
struct ChunkPlace {
  int64_t tensor;
  int64_t begin;
  int64_t count;
};

/// The place of chunk `chunk`, as numbered by number_chunks().
template <class Tensor>
MEG_HOST_DEVICE ChunkPlace place_of_chunk(const Tensor* tensors, int64_t tensor_count,
                                          int64_t chunk) {
  int64_t low = 0;  // the last tensor whose first_chunk <= chunk; empty tensors come before it
  int64_t high = tensor_count;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (tensors[middle].first_chunk <= chunk ? low : high) = middle;
  }
  const int64_t begin = (chunk - tensors[low].first_chunk) * kChunkElements;
  const int64_t rest = tensors[low].count - begin;
  return {low, begin, rest < kChunkElements ? rest : kChunkElements};
}

}  // namespace meg::kernels
