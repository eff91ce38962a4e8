#include "libmeg/logging/training_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "libmeg/logging/figure_names.h"

// Scripts read these lines with regular expressions, so widths, digits and the order of the fields
// are Megatron's, and a field that Megatron leaves out at a step is left out here.

namespace meg::logging {

void TrainingLog::add(const Losses& losses, bool skipped) {
  if (skipped) {
    ++skipped_;
    const bool finite = std::all_of(losses.begin(), losses.end(),
                                    [](const auto& loss) { return std::isfinite(loss.second); });
    if (!finite) ++nan_;
    return;
  }
  ++advanced_;
  for (const auto& loss : losses) {
    const auto sum = std::find_if(sums_.begin(), sums_.end(),
                                  [&loss](const auto& entry) { return entry.first == loss.first; });
    if (sum == sums_.end()) {
      sums_.push_back(loss);
    } else {
      sum->second += loss.second;
    }
  }
}

std::string TrainingLog::iteration_line(const IterationFigures& figures, double elapsed_seconds,
                                        std::time_t now, std::optional<double> tflops) {
  namespace names = figure_names;
  std::string line;
  const auto out = std::back_inserter(line);
  if (dated_) fmt::format_to(out, " [{}]", log_time(now));
  fmt::format_to(out, " iteration {:8d}/{:8d} | {}: {:12d} |", figures.iteration,
                 figures.train_iters, names::kConsumedSamples.label,
                 figures.consumed_train_samples);
  if (figures.skipped_train_samples > 0) {
    fmt::format_to(out, " {}: {:12d} |", names::kSkippedSamples.label,
                   figures.skipped_train_samples);
  }
  // Skipped steps took time as well, but have no losses: the two means are over different counts.
  fmt::format_to(out, " {}: {:.1f} |", names::kElapsedTime.label,
                 elapsed_seconds / static_cast<double>(iterations()) * 1000.0);
  if (tflops) fmt::format_to(out, " {}: {:.1f} |", names::kThroughput.label, *tflops);
  fmt::format_to(out, " {}: {:.{}E} |", names::kLearningRate.label, figures.learning_rate,
                 dated_ ? 6 : 3);
  fmt::format_to(out, " {}: {:5d} |", names::kBatchSize.label, figures.global_batch_size);
  const auto counted = static_cast<double>(std::max<int64_t>(1, advanced_));
  for (const auto& [name, sum] : sums_) {
    // The sum is fp32, as Megatron adds up tensors; the mean is taken in Python, in float64.
    const double mean = static_cast<double>(sum) / counted;
    if (mean > 0.0) fmt::format_to(out, " {}: {:.6E} |", name, mean);
  }
  fmt::format_to(out, " {}: {:.1f} |", names::kLossScale.label, figures.loss_scale);
  if (figures.grad_norm) {
    fmt::format_to(out, " {}: {:.3f} |", names::kGradNorm.label, printed(*figures.grad_norm));
  }
  if (figures.num_zeros_in_grad) {
    fmt::format_to(out, " {}: {:.1f} |", names::kNumZeros.label, *figures.num_zeros_in_grad);
  }
  if (figures.params_norm) {
    fmt::format_to(out, " {}: {:.3f} |", names::kParamsNorm.label, printed(*figures.params_norm));
  }
  fmt::format_to(out, " {}: {:3d} | {}: {:3d} |", names::kSkippedIterations.label, skipped_,
                 names::kNanIterations.label, nan_);
  advanced_ = skipped_ = nan_ = 0;
  sums_.clear();
  return line;
}

double printed(double value) { return std::isnan(value) ? std::abs(value) : value; }

std::string log_time(std::time_t time) {
  std::tm local = {};
  localtime_r(&time, &local);
  std::array<char, 32> text = {};
  const size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  return std::string(text.data(), size);
}

}  // namespace meg::logging
