#include "libmeg/samples/internal/blend_index.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace meg::samples {
namespace {

/// The samples between two questions whether to continue, which take longer than a sample.
constexpr size_t kSamplesOfPiece = 4096;

Status check_cancelled(const CacheCancelled& cancelled) {
  return meg::samples::check_cancelled(cancelled, "index of a blend");
}

/// A dataset that still has samples to give.
struct Candidate {
  double weight = 0;
  double used = 0;  // exact: below 2^53
  int16_t dataset = 0;
};

/// The one that is furthest behind at sample number `sample`; the first of equals.
size_t furthest_behind(std::span<const Candidate> candidates, int64_t sample) {
  // Compute like Megatron's helper, term by term in float64: another order of operations would
  // break ties differently, and one sample drawn from another dataset shifts all that follow. At
  // sample 0 the place is 1, so that the largest weight goes first.
  const double place = std::max(static_cast<double>(sample), 1.0);
  size_t best = 0;
  double most = std::numeric_limits<double>::lowest();
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double behind = candidates[i].weight * place - candidates[i].used;
    if (behind > most) {
      most = behind;
      best = i;
    }
  }
  return best;
}

void give(Candidate& candidate, size_t sample, std::span<int16_t> dataset_index,
          std::span<int64_t> dataset_sample_index) {
  dataset_index[sample] = candidate.dataset;
  dataset_sample_index[sample] = static_cast<int64_t>(candidate.used);
  candidate.used += 1;
}

std::vector<Candidate> candidates_of(std::span<const double> weights) {
  std::vector<Candidate> candidates;
  for (const double weight : weights) {
    candidates.push_back(
        {.weight = weight, .used = 0, .dataset = static_cast<int16_t>(candidates.size())});
  }
  return candidates;
}

}  // namespace

Status build_blend_index(std::span<const double> weights, std::span<int16_t> dataset_index,
                         std::span<int64_t> dataset_sample_index, const CacheCancelled& cancelled) {
  std::vector<Candidate> candidates = candidates_of(weights);
  for (size_t sample = 0; sample < dataset_index.size(); ++sample) {
    if (sample % kSamplesOfPiece == 0) MEG_RETURN_IF_ERROR(check_cancelled(cancelled));
    const size_t next = furthest_behind(candidates, static_cast<int64_t>(sample));
    give(candidates[next], sample, dataset_index, dataset_sample_index);
  }
  return {};
}

Status build_exhaustive_blend_index(std::span<const int64_t> sizes,
                                    std::span<int16_t> dataset_index,
                                    std::span<int64_t> dataset_sample_index,
                                    const CacheCancelled& cancelled) {
  const auto total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<double> weights;
  for (const int64_t size : sizes) {
    weights.push_back(static_cast<double>(size) / static_cast<double>(total));
  }
  std::vector<Candidate> candidates = candidates_of(weights);
  for (size_t sample = 0; sample < dataset_index.size(); ++sample) {
    if (sample % kSamplesOfPiece == 0) MEG_RETURN_IF_ERROR(check_cancelled(cancelled));
    const size_t next = furthest_behind(candidates, static_cast<int64_t>(sample));
    Candidate& chosen = candidates[next];
    give(chosen, sample, dataset_index, dataset_sample_index);
    if (static_cast<int64_t>(chosen.used) == sizes[static_cast<size_t>(chosen.dataset)]) {
      // The order of the others stays: it decides between equals.
      candidates.erase(candidates.begin() + static_cast<ptrdiff_t>(next));
    }
  }
  return {};
}

}  // namespace meg::samples
