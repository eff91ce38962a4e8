#include "libmeg/generation/internal/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "libmeg/kernels/cpu/cpu_loops.h"

namespace meg::generation {
namespace {

/// Below it the quotients leave a float's range, and the most likely token has all the probability.
constexpr double kGreedyTemperature = 1e-30;

/// Up to here the largest values are kept in a heap while the others pass by.
constexpr int64_t kMaxInHeap = 1024;

Status outside(std::string_view name, std::string_view expected, double found) {
  return make_error(StatusCode::kOutOfRange, "{}: expected {}, found {}", name, expected, found);
}

bool is_share(double value) { return value >= 0 && value <= 1; }

}  // namespace

Status check_sampling(const serving::SamplingOptions& options, int64_t vocab_size) {
  if (!(options.temperature > 0) || !std::isfinite(options.temperature)) {
    return outside("temperature", "a number above 0", options.temperature);
  }
  if (options.top_k < 0 || options.top_k > vocab_size) {
    return make_error(StatusCode::kOutOfRange, "top_k: expected 0 to {}, found {}", vocab_size,
                      options.top_k);
  }
  if (!is_share(options.top_p)) return outside("top_p", "0 to 1", options.top_p);
  if (!is_share(options.top_p_decay)) return outside("top_p_decay", "0 to 1", options.top_p_decay);
  if (!is_share(options.top_p_bound)) return outside("top_p_bound", "0 to 1", options.top_p_bound);
  if (options.top_k > 0 && options.top_p > 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "top_k and top_p: expected one of them, found {} and {}", options.top_k,
                      options.top_p);
  }
  return Status();
}

int32_t most_likely(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Sampler::Sampler(const serving::SamplingOptions& options)
    : options_(options), generator_(options.seed), top_p_(options.top_p > 0 ? options.top_p : 1) {}

void Sampler::take_top_k(std::span<const float> logits) {
  const auto k = static_cast<size_t>(options_.top_k);
  float least = 0;
  if (options_.top_k <= kMaxInHeap) {
    room_.resize(k);
    // For small k nearly every logit fails the comparison with the heap's top: one pass at the
    // speed of memory.
    std::partial_sort_copy(logits.begin(), logits.end(), room_.begin(), room_.end(),
                           std::greater<>());
    least = room_.back();
  } else {
    room_.assign(logits.begin(), logits.end());
    // Linear whatever k is, where a heap would move for many logits.
    std::nth_element(room_.begin(), room_.begin() + static_cast<ptrdiff_t>(k - 1), room_.end(),
                     std::greater<>());
    least = room_[k - 1];
  }
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    // Take, as Megatron does, all that are as large as the k-th.
    if (logits[i] >= least) candidates_.push_back({weights_[i], static_cast<int32_t>(i)});
  }
}

/// The tokens' probabilities up to a common factor.
void Sampler::weigh(std::span<const float> logits) {
  const auto& loops = kernels::cpu_loops(best_instruction_set());
  // Temperature before top-k and top-p, as Megatron's sampling.py has it: top-p looks at the
  // tempered probabilities.
  const auto scale = static_cast<float>(1 / options_.temperature);
  const auto count = static_cast<int64_t>(logits.size());
  const float largest = loops.maximum(logits.data(), count);
  weights_.resize(logits.size());
  // Relative to the largest, which becomes 1, so that neither quotients nor exponentials overflow;
  // the common factor cancels in draw_candidate().
  for (size_t i = 0; i < logits.size(); ++i) weights_[i] = (logits[i] - largest) * scale;
  loops.scaled_exp(weights_.data(), /*shift=*/0, 1, weights_.data(), count);
}

void Sampler::take_top_p() {
  const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  // Tokens that together weigh less than what may be left out cannot be among the kept.
  const auto count = static_cast<double>(weights_.size());
  // The factor leaves room for what sums of floats lose to rounding: a token too many is cut later,
  // one too few would be lost.
  const auto least = static_cast<float>(0.999 * (1 - top_p_) * total / count);
  candidates_.clear();
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] >= least) candidates_.push_back({weights_[i], static_cast<int32_t>(i)});
  }
  if (top_p_ < 1) cut_candidates(top_p_ * total);
}

/// Keeps the most likely candidates, each while those before it weigh no more than `wanted`: looks
/// for the least weight as quickselect does, so that nothing is sorted, among copies of the
/// weights, so that the candidates stay in the order of their ids.
void Sampler::cut_candidates(double wanted) {
  room_.clear();
  for (const Candidate& candidate : candidates_) room_.push_back(candidate.weight);
  double before = 0;
  auto begin = room_.begin();
  auto end = room_.end();
  float least = 0;
  ptrdiff_t least_count = std::ssize(room_);  // candidates of the least weight that stay
  while (begin != end) {
    const float pivot = begin[(end - begin) / 2];
    const auto larger = std::partition(begin, end, [&](float weight) { return weight > pivot; });
    const double weight = std::accumulate(begin, larger, before);
    if (weight > wanted) {
      end = larger;
      continue;
    }
    const auto equal = std::partition(larger, end, [&](float other) { return other == pivot; });
    const auto equals = static_cast<double>(equal - larger);
    least = pivot;
    if (weight + equals * double{pivot} > wanted) {
      // The end lies among equals: the first of them by id stay.
      least_count = static_cast<ptrdiff_t>((wanted - weight) / double{pivot}) + 1;
      break;
    }
    // Those before `equal` stay for certain.
    least_count = equal - larger;
    before = weight + equals * double{pivot};
    begin = equal;
  }
  std::erase_if(candidates_, [&](const Candidate& candidate) {
    return candidate.weight < least || (candidate.weight == least && least_count-- <= 0);
  });
}

/// A number from 0 to `total`, below it.
double Sampler::draw_below(double total) {
  // The upper 53 bits, as many as a double has: each result is exact and below 1.
  // std::uniform_real_distribution may give 1, and other libraries draw other numbers with it.
  return static_cast<double>(generator_() >> 11) * 0x1p-53 * total;
}

int32_t Sampler::draw_candidate() {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += double{candidate.weight};
  double left = draw_below(total);
  int32_t drawn = candidates_.front().id;
  for (const Candidate& candidate : candidates_) {
    // Where rounding leaves something after the last candidate, the last one that has any
    // probability is drawn.
    if (candidate.weight <= 0) continue;
    drawn = candidate.id;
    left -= double{candidate.weight};
    if (left < 0) break;
  }
  return drawn;
}

bool Sampler::is_greedy() const {
  return options_.top_k == 1 || options_.temperature < kGreedyTemperature;
}

int32_t Sampler::draw(std::span<const float> logits) {
  if (is_greedy()) return most_likely(logits);
  weigh(logits);
  if (options_.top_k > 1) {
    take_top_k(logits);
  } else {
    take_top_p();
  }
  if (options_.top_p > 0 && options_.top_p_decay > 0) {
    top_p_ *= options_.top_p_decay;
    if (options_.top_p_bound > 0) top_p_ = std::max(top_p_, options_.top_p_bound);
  }
  return draw_candidate();
}

}  // namespace meg::generation
