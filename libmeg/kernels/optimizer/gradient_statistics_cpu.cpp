#include <algorithm>

#include "libmeg/kernels/internal/cpu_runs.h"
#include "libmeg/kernels/optimizer/gradient_statistics.h"

namespace meg::kernels {

void gradient_statistics_cpu(const GradientTensor* tensors, int64_t tensor_count, float scale,
                             GradientStatistics* of_chunks, int64_t chunk_begin,
                             int64_t chunk_end) {
  float buffer[kRunElements];
  for (int64_t chunk = chunk_begin; chunk < chunk_end; ++chunk) {
    const ChunkPlace place = place_of_chunk(tensors, tensor_count, chunk);
    const GradientTensor& tensor = tensors[place.tensor];
    const CpuRuns runs(tensor.type);
    GradientStatistics statistics;
    for (int64_t done = 0; done < place.count; done += kRunElements) {
      const int64_t count = std::min(kRunElements, place.count - done);
      const float* gradient = runs.read(tensor.gradient, place.begin + done, count, buffer);
      runs.loops().square_sum(gradient, count, &statistics.sum_of_squares, &statistics.num_zeros);
    }
    // Unscaled after the sum and in fp64: no gradient is rounded to 0 by it, and none is written.
    statistics.sum_of_squares *= double{scale} * double{scale};
    of_chunks[chunk] = statistics;
  }
}

GradientStatistics total_statistics(const GradientStatistics* of_chunks, int64_t chunk_count) {
  GradientStatistics total;
  for (int64_t chunk = 0; chunk < chunk_count; ++chunk) {
    total.sum_of_squares += of_chunks[chunk].sum_of_squares;
    total.num_zeros += of_chunks[chunk].num_zeros;
  }
  return total;
}

}  // namespace meg::kernels
