#include <map>
#include <utility>
#include <vector>

#include "libmeg/kernels/embedding_backward.h"
#include "libmeg/kernels/internal/cpu_runs.h"

namespace meg::kernels {
namespace {

/// The sum of an id's lookups, gathered apart in fp32 and written once: in a 16-bit table every
/// addition would round.
struct Sum {
  std::vector<float> part, whole;
  int64_t lookups = 0;

  void add(const float* gradient, size_t columns) {
    if (lookups % kLookupsOfPart == 0) end_part(columns);
    for (size_t column = 0; column < columns; ++column) part[column] += gradient[column];
    ++lookups;
  }

  void end_part(size_t columns) {
    part.resize(columns);
    whole.resize(columns);
    for (size_t column = 0; column < columns; ++column) {
      whole[column] += std::exchange(part[column], 0.0f);
    }
  }
};

}  // namespace

void embedding_backward_cpu(const EmbeddingBackward& call) {
  const auto columns = static_cast<size_t>(call.columns);
  const CpuRuns runs(call.type);
  std::map<int64_t, Sum> sums;
  std::vector<float> buffer(columns);
  for (int64_t i = 0; i < call.count; ++i) {
    const float* gradient =
        runs.read(call.gradients, i * call.columns, call.columns, buffer.data());
    sums[call.ids == nullptr ? i % call.period : call.ids[i]].add(gradient, columns);
  }
  const CpuRuns results(call.adds ? FloatType::kFloat32 : call.type);
  for (auto& [id, sum] : sums) {
    sum.end_part(columns);
    const int64_t begin = id * call.columns;
    float* const place = results.place(call.grad_weight, begin, buffer.data());
    for (size_t column = 0; column < columns; ++column) {
      place[column] = call.adds ? place[column] + sum.whole[column] : sum.whole[column];
    }
    results.write(place, call.grad_weight, begin, call.columns);
  }
}

}  // namespace meg::kernels
