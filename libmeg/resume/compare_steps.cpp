#include "libmeg/resume/compare_steps.h"

#include <algorithm>
#include <cmath>

#include "libmeg/logging/figure_names.h"

// A line has means over its steps for losses, and the last step's values for the rest: what
// TrainingLog makes of steps is made here of the computed ones.

namespace meg::resume {
namespace {

namespace names = logging::figure_names;

/// Relative; what Python and C++ may differ by in a schedule.
constexpr double kScheduleRounding = 1e-9;

/// The steps of a line as one.
struct ComputedLine {
  const train::StepReport* last = nullptr;
  float loss_sum = 0;
  int64_t counted = 0;
  int64_t skipped = 0;
};

ComputedLine computed_line(const logging::LoggedInterval& line,
                           std::span<const train::StepReport> steps) {
  ComputedLine computed;
  for (const train::StepReport& step : steps) {
    if (step.iteration <= line.after || step.iteration > line.line.iteration) continue;
    computed.last = &step;
    if (step.outcome.skipped) {
      ++computed.skipped;
      continue;
    }
    ++computed.counted;
    computed.loss_sum += static_cast<float>(step.lm_loss);
  }
  return computed;
}

class LineComparison {
 public:
  LineComparison(int64_t iteration, std::vector<ComparedFigure>& figures)
      : iteration_(iteration), figures_(figures) {}

  /// allowed: beside the rounding of the log's digits, relative. margin: the same, absolute.
  void figure(std::string_view name, const std::optional<logging::LoggedFigure>& logged,
              double computed, double allowed, double margin = 0) {
    if (!logged.has_value()) return;
    add(name, logged->value, computed,
        // A program rounds to even or up at half a unit.
        logged->rounding * (1 + 1e-6) + allowed * std::abs(computed) + margin);
  }

  /// Samples that were consumed; those of a run that read others may be counted either way.
  void consumed(const std::optional<int64_t>& logged, int64_t computed, int64_t sample_shift) {
    count(names::kConsumedSamples.label, logged,
          logged == computed ? computed : computed - sample_shift);
  }

  void count(std::string_view name, const std::optional<int64_t>& logged, int64_t computed) {
    if (!logged.has_value()) return;
    add(name, static_cast<double>(*logged), static_cast<double>(computed), 0.5);
  }

 private:
  void add(std::string_view name, double logged, double computed, double allowed) {
    double misfit = kIncomparable;
    if (std::isfinite(logged) && std::isfinite(computed)) {
      const double difference = std::abs(logged - computed);
      misfit = difference == 0 ? 0 : std::min(kIncomparable, difference / allowed);
    } else if (std::isnan(logged) == std::isnan(computed) && std::isinf(logged)) {
      misfit = 0;
    } else if (std::isnan(logged) && std::isnan(computed)) {
      misfit = 0;
    }
    figures_.push_back({.iteration = iteration_,
                        .name = std::string(name),
                        .logged = logged,
                        .computed = computed,
                        .misfit = misfit});
  }

  int64_t iteration_;
  std::vector<ComparedFigure>& figures_;
};

}  // namespace

Tolerances tolerances_of(at::ScalarType weights, bool with_dropout) {
  // Two runs that drop other elements differ like two batches do.
  if (with_dropout) return {.loss = 0.02, .grad_norm = 0.25};
  if (weights == at::kBFloat16) return {.loss = 1e-3, .grad_norm = 1e-2};
  if (weights == at::kHalf) return {.loss = 2e-4, .grad_norm = 5e-3};
  return {.loss = 1e-5, .grad_norm = 1e-4};
}

std::vector<ComparedFigure> compare_steps(std::span<const logging::LoggedInterval> lines,
                                          std::span<const train::StepReport> steps,
                                          const Tolerances& tolerances, int64_t sample_shift) {
  std::vector<ComparedFigure> figures;
  const int64_t last = steps.empty() ? 0 : steps.back().iteration;
  for (const logging::LoggedInterval& interval : lines) {
    const logging::LoggedSteps& line = interval.line;
    if (line.iteration > last) break;
    const ComputedLine computed = computed_line(interval, steps);
    if (computed.last == nullptr) continue;
    const logging::IterationFigures& of_last = computed.last->figures;
    LineComparison compare(line.iteration, figures);
    compare.consumed(line.consumed_samples, of_last.consumed_train_samples, sample_shift);
    compare.figure(names::kLearningRate.label, line.learning_rate, of_last.learning_rate,
                   kScheduleRounding);
    compare.count(names::kBatchSize.label, line.batch_size, of_last.global_batch_size);
    if (computed.counted > 0) {
      compare.figure("lm loss", line.lm_loss(),
                     static_cast<double>(computed.loss_sum) / static_cast<double>(computed.counted),
                     tolerances.loss);
    }
    compare.figure(names::kLossScale.label, line.loss_scale, of_last.loss_scale, kScheduleRounding);
    if (line.grad_norm.has_value() != of_last.grad_norm.has_value() &&
        line.skipped_iterations.has_value()) {
      // One of the two was skipped, which the number of skipped iterations shows.
    } else if (of_last.grad_norm.has_value()) {
      compare.figure(names::kGradNorm.label, line.grad_norm, *of_last.grad_norm,
                     tolerances.grad_norm);
    }
    compare.count(names::kSkippedIterations.label, line.skipped_iterations, computed.skipped);
  }
  return figures;
}

std::vector<ComparedFigure> compare_samples(const logging::LoggedSteps& line,
                                            const SampledLoss& sampled, int64_t consumed,
                                            const Tolerances& tolerances, int64_t sample_shift) {
  std::vector<ComparedFigure> figures;
  LineComparison compare(line.iteration, figures);
  compare.consumed(line.consumed_samples, consumed, sample_shift);
  compare.count(names::kBatchSize.label, line.batch_size, sampled.batch_size);
  compare.figure("lm loss", line.lm_loss(), sampled.mean, tolerances.loss, sampled.margin);
  return figures;
}

double largest_misfit(std::span<const ComparedFigure> figures) {
  double largest = 0;
  for (const ComparedFigure& figure : figures) largest = std::max(largest, figure.misfit);
  return largest;
}

}  // namespace meg::resume
