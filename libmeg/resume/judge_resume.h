#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/logging/log_runs.h"
#include "libmeg/resume/compare_steps.h"
#include "libmeg/resume/hypotheses.h"
#include "libmeg/resume/sampled_loss.h"

namespace meg::resume {

struct JudgeOptions {
  int64_t steps = 4;  ///< To compute, at least those of the first line.
  Tolerances tolerances;
  bool try_all = false;  ///< Goes on after a hypothesis fits.
  /// Batches before and behind the one that is due, among which shifted samples are searched.
  int64_t search_batches = 8;
  /// Instead of steps the first one's loss alone, of that many sequences of its batch: forward
  /// passes with one layer's weights in memory at a time. At least 2, or the whole batch.
  std::optional<int64_t> samples = std::nullopt;
  /// Called before each run of some steps with what it tries.
  std::function<void(std::string_view name)> begins = {};
  /// Called after each step, or each pass of a sequence through a layer; the total counts all
  /// hypotheses that may still be tried.
  std::function<void(const Progress&)> progress = {};
};

/// A hypothesis that was tried.
struct Trial {
  std::string name, cause;
  std::vector<ComparedFigure> figures;
  double misfit = 0;  ///< The largest of its figures; at most 1: it fits.
  std::string error;  ///< Why it could not be computed; then misfit is kIncomparable.

  bool fits() const { return misfit <= 1; }
};

struct Verdict {
  std::vector<ComparedFigure> figures;  ///< Of the run as it should go on.
  std::vector<std::string> warnings;    ///< What the trainer said while it loaded.
  std::vector<Trial> trials;            ///< The best first; empty if the run is equal.
  /// Names that were left out, as another one fits or as samples of the first step do not show it.
  std::vector<std::string> untried;
  std::optional<SampledLoss>
      sampled;  ///< Of the run as it should go on, with JudgeOptions.samples.

  bool equal() const { return largest_misfit(figures) <= 1; }

  /// The hypothesis that explains nearly all, where none fits: a fault may make small differences
  /// between two programs large. nullptr if there is none, or more than one.
  const Trial* likely() const;

  /// The first that fits, or the likely one; nullptr if there is none.
  const Trial* cause() const;
};

/// Computes the steps of a log's lines with the trainer and compares; where they differ, computes
/// them again under each hypothesis. Errors: those of the trainer for the run as it should go on;
/// kInvalidArgument for numbers of samples that the batch does not have or from which no standard
/// error follows, and for lines without a loss of the first step alone.
Result<Verdict> judge_resume(const ResumeCase& resumed,
                             std::span<const logging::LoggedInterval> lines,
                             const JudgeOptions& options);

/// Bytes that such a run keeps at least: weights, gradients, optimizer, activations, logits.
Result<double> memory_of(const train::TrainerOptions& options);

}  // namespace meg::resume
