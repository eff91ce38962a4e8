#include "libmeg/samples/internal/reblend/drawn_samples.h"

#include <algorithm>
#include <utility>

#include "libmeg/samples/internal/blend_index.h"

namespace meg::samples {
namespace {

/// The datasets of samples that are drawn by the new weights.
Result<std::vector<int16_t>> draw_datasets(std::span<const ReblendedDataset> datasets, int64_t size,
                                           const CacheCancelled& cancelled) {
  std::vector<int16_t> numbers;
  std::vector<double> weights;
  for (size_t i = 0; i < datasets.size(); ++i) {
    if (datasets[i].new_weight == 0) continue;
    numbers.push_back(static_cast<int16_t>(i));
    weights.push_back(datasets[i].new_weight);
  }
  std::vector<int16_t> drawn(static_cast<size_t>(size));
  std::vector<int64_t> ignored(drawn.size());
  MEG_RETURN_IF_ERROR(build_blend_index(weights, drawn, ignored, cancelled));
  for (int16_t& dataset : drawn) dataset = numbers[static_cast<size_t>(dataset)];
  return drawn;
}

}  // namespace

void DrawnSamples::cut_to(int64_t size) {
  datasets.resize(static_cast<size_t>(size));
  samples.resize(static_cast<size_t>(size));
}

std::vector<int64_t> DrawnSamples::counts(size_t count, int64_t size) const {
  std::vector<int64_t> counts(count);
  for (const int16_t dataset : std::span(datasets).first(static_cast<size_t>(size))) {
    ++counts[static_cast<size_t>(dataset)];
  }
  return counts;
}

Result<DrawnSamples> draw_samples(const DrawSource& source, int64_t size,
                                  const CacheCancelled& cancelled) {
  const int64_t kept = std::min(source.kept, size);
  std::vector<int16_t> drawn;
  if (size > kept) {
    MEG_ASSIGN_OR_RETURN(drawn,
                         draw_datasets(source.datasets, size - source.weights_from, cancelled));
  }
  std::vector<int64_t> next;
  for (const ReblendedDataset& each : source.datasets) next.push_back(each.given);
  DrawnSamples samples;
  samples.datasets.reserve(static_cast<size_t>(size));
  samples.samples.reserve(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    auto [dataset, sample] = i < kept ? source.run.at(i) : std::pair<int64_t, int64_t>();
    if (i >= kept) dataset = drawn[static_cast<size_t>(i - source.weights_from)];
    if (i >= source.consumed) sample = next[static_cast<size_t>(dataset)]++;
    samples.datasets.push_back(static_cast<int16_t>(dataset));
    samples.samples.push_back(sample);
  }
  return samples;
}

}  // namespace meg::samples
