#include "libmeg/resume/sampled_loss.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace meg::resume {
namespace {

/// The probability that a value of Student's distribution is within -t to t. Abramowitz and Stegun,
/// 26.7.3 and 26.7.4.
double student_within(double t, int64_t degrees) {
  const double angle = std::atan(t / std::sqrt(static_cast<double>(degrees)));
  const double cosine = std::cos(angle);
  const bool is_odd = degrees % 2 != 0;
  double term = std::sin(angle) * (is_odd ? cosine : 1);
  double sum = 0;
  for (int64_t k = is_odd ? 1 : 0; k <= degrees - 2; k += 2) {
    sum += term;
    term *= cosine * cosine * static_cast<double>(k + 1) / static_cast<double>(k + 2);
  }
  return is_odd ? 2 / std::numbers::pi * (angle + sum) : sum;
}

/// The t with that probability.
double student_quantile(double probability, int64_t degrees) {
  double low = 0;
  double high = 1e6;
  constexpr int kHalvings = 100;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (student_within(middle, degrees) < probability ? low : high) = middle;
  }
  return high;
}

}  // namespace

SampledLoss sampled_loss(std::span<const train::SampleLoss> losses, int64_t batch_size) {
  const auto count = static_cast<double>(losses.size());
  double sum = 0;
  double tokens = 0;
  for (const train::SampleLoss& loss : losses) {
    sum += loss.loss_sum;
    tokens += loss.tokens;
  }
  SampledLoss sampled = {
      .samples = std::ssize(losses), .batch_size = batch_size, .mean = sum / tokens};
  if (sampled.samples == batch_size) return sampled;
  // A ratio of two sums: sequences may keep different numbers of tokens.
  double squares = 0;
  for (const train::SampleLoss& loss : losses) {
    const double rest = loss.loss_sum - sampled.mean * loss.tokens;
    squares += rest * rest;
  }
  const double deviation = std::sqrt(squares / (count - 1)) * count / tokens;
  // The more of the batch was computed, the less of it is unknown.
  const double share = count / static_cast<double>(batch_size);
  const double factor = std::sqrt((1 - share) / count);
  sampled.standard_error = factor * deviation;
  constexpr double kLeastDeviation = 0.2;
  constexpr double kNormalQuantile = 3.8906;  // Of kConfidence, as student_quantile's limit.
  sampled.margin = std::max(
      student_quantile(SampledLoss::kConfidence, sampled.samples - 1) * sampled.standard_error,
      kNormalQuantile * factor * kLeastDeviation * sampled.mean);
  return sampled;
}

std::vector<int64_t> drawn_positions(int64_t count, int64_t batch_size, uint64_t seed) {
  // std::sample and std's distributions differ between libraries; its engines do not.
  std::mt19937_64 generator(seed);
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < batch_size; ++i) {
    const auto left = static_cast<uint64_t>(batch_size - i);
    const auto wanted = static_cast<uint64_t>(count - std::ssize(positions));
    if (generator() % left < wanted) positions.push_back(i);
  }
  return positions;
}

}  // namespace meg::resume
