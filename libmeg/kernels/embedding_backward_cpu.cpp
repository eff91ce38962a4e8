#include <map>
#include <vector>

#include "libmeg/kernels/embedding_backward.h"
#include "libmeg/kernels/internal/cpu_runs.h"

namespace meg::kernels {

void embedding_backward_cpu(const EmbeddingBackward& call) {
  const auto columns = static_cast<size_t>(call.columns);
  const CpuRuns runs(call.type);
  // Gathered apart in fp32 and written once: in a 16-bit table every addition would round.
  std::map<int64_t, std::vector<float>> sums;
  std::vector<float> buffer(columns);
  for (int64_t i = 0; i < call.count; ++i) {
    const float* gradient =
        runs.read(call.gradients, i * call.columns, call.columns, buffer.data());
    std::vector<float>& sum = sums[call.ids == nullptr ? i % call.period : call.ids[i]];
    sum.resize(columns);
    for (size_t column = 0; column < columns; ++column) sum[column] += gradient[column];
  }
  const CpuRuns results(call.adds ? FloatType::kFloat32 : call.type);
  for (auto& [id, sum] : sums) {
    const int64_t begin = id * call.columns;
    float* const place = results.place(call.grad_weight, begin, buffer.data());
    for (size_t column = 0; column < columns; ++column) {
      place[column] = call.adds ? place[column] + sum[column] : sum[column];
    }
    results.write(place, call.grad_weight, begin, call.columns);
  }
}

}  // namespace meg::kernels
