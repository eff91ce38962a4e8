#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libmeg/logging/log_runs.h"
#include "libmeg/resume/sampled_loss.h"
#include "libmeg/train/trainer.h"

namespace meg::resume {

/// How far a figure of another program, or of another layout of ranks, may be from the computed
/// one: relative, and added to the rounding of the log's digits.
struct Tolerances {
  double loss = 0;
  double grad_norm = 0;
};

/// Those for runs whose weights are of this type, from what the real Megatron-LM's runs differ by;
/// with_dropout: of runs that drop other elements than the computed ones.
Tolerances tolerances_of(at::ScalarType weights, bool with_dropout);

/// A figure of the log beside the computed one.
struct ComparedFigure {
  int64_t iteration = 0;
  std::string name;  ///< As in a line: "lm loss", "grad norm" ...
  double logged = 0;
  double computed = 0;
  /// Their difference by the one that is allowed; above 1 they differ. kIncomparable where only one
  /// of them is a number.
  double misfit = 0;
};

inline constexpr double kIncomparable = 1e12;

/// Compares lines with the steps that were computed for them. sample_shift: what the computed steps
/// count beyond the samples that the log's run counts as consumed. Lines about more steps than were
/// computed are left out.
std::vector<ComparedFigure> compare_steps(std::span<const logging::LoggedInterval> lines,
                                          std::span<const train::StepReport> steps,
                                          const Tolerances& tolerances, int64_t sample_shift = 0);

/// Compares the line of a single step with the loss of some sequences of its batch, within its
/// margin. What depends on gradients or the schedule is left out. consumed: samples after the step.
std::vector<ComparedFigure> compare_samples(const logging::LoggedSteps& line,
                                            const SampledLoss& sampled, int64_t consumed,
                                            const Tolerances& tolerances, int64_t sample_shift = 0);

/// The largest; 0 of none.
double largest_misfit(std::span<const ComparedFigure> figures);

}  // namespace meg::resume
