#include "libmeg/samples/internal/reblend/drawn_samples.h"

#include "libmeg/samples/internal/blend_index.h"

namespace meg::samples {
namespace {

DrawnSamples draw_seen_samples(const RunSplit& run, int64_t consumed, int64_t size) {
  DrawnSamples drawn;
  drawn.datasets.resize(static_cast<size_t>(size));
  drawn.samples.resize(static_cast<size_t>(size));
  for (int64_t i = 0; i < consumed; ++i) {
    const auto [dataset, sample] = run.at(i);
    drawn.datasets[static_cast<size_t>(i)] = static_cast<int16_t>(dataset);
    drawn.samples[static_cast<size_t>(i)] = sample;
  }
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

Result<DrawnSamples> draw_samples(const RunSplit& run, int64_t consumed,
                                  std::span<const ReblendedDataset> datasets, int64_t size,
                                  const CacheCancelled& cancelled) {
  std::vector<int16_t> numbers;
  std::vector<double> weights;
  for (size_t i = 0; i < datasets.size(); ++i) {
    if (datasets[i].new_weight == 0) continue;
    numbers.push_back(static_cast<int16_t>(i));
    weights.push_back(datasets[i].new_weight);
  }
  DrawnSamples drawn = draw_seen_samples(run, consumed, size);
  const auto behind = static_cast<size_t>(consumed);
  const auto chosen = std::span(drawn.datasets).subspan(behind);
  const auto samples = std::span(drawn.samples).subspan(behind);
  MEG_RETURN_IF_ERROR(build_blend_index(weights, chosen, samples, cancelled));
  for (size_t i = 0; i < chosen.size(); ++i) {
    chosen[i] = numbers[static_cast<size_t>(chosen[i])];
    samples[i] += datasets[static_cast<size_t>(chosen[i])].given;
  }
  return drawn;
}

DrawnSamples draw_same_blend(const RunSplit& run, int64_t consumed,
                             std::span<const ReblendedDataset> datasets, int64_t size) {
  DrawnSamples drawn = draw_seen_samples(run, consumed, size);
  std::vector<int64_t> next;
  for (const ReblendedDataset& each : datasets) next.push_back(each.given);
  for (int64_t i = consumed; i < size; ++i) {
    // Beyond the run's own end its blend begins again.
    const auto dataset = static_cast<size_t>(run.at(i % run.size()).first);
    drawn.datasets[static_cast<size_t>(i)] = static_cast<int16_t>(dataset);
    drawn.samples[static_cast<size_t>(i)] = next[dataset]++;
  }
  return drawn;
}

}  // namespace meg::samples
