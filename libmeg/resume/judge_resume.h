#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/logging/log_runs.h"
#include "libmeg/resume/compare_steps.h"
#include "libmeg/resume/hypotheses.h"

namespace meg::resume {

struct JudgeOptions {
  int64_t steps = 4;  ///< To compute, at least those of the first line.
  Tolerances tolerances;
  bool try_all = false;  ///< Goes on after a hypothesis fits.
  /// Batches before and behind the one that is due, among which shifted samples are searched.
  int64_t search_batches = 8;
  /// Called before each run of some steps with what it tries.
  std::function<void(std::string_view name)> begins = {};
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
  std::vector<std::string> untried;     ///< Names that were left out, as another one fits.

  bool equal() const { return largest_misfit(figures) <= 1; }

  /// The hypothesis that explains nearly all, where none fits: a fault may make small differences
  /// between two programs large. nullptr if there is none, or more than one.
  const Trial* likely() const;

  /// The first that fits, or the likely one; nullptr if there is none.
  const Trial* cause() const;
};

/// Computes the steps of a log's lines with the trainer and compares; where they differ, computes
/// them again under each hypothesis. Errors: those of the trainer for the run as it should go on.
Result<Verdict> judge_resume(const ResumeCase& resumed,
                             std::span<const logging::LoggedInterval> lines,
                             const JudgeOptions& options);

/// Bytes that such a run keeps at least: weights, gradients, optimizer, activations, logits.
Result<double> memory_of(const train::TrainerOptions& options);

}  // namespace meg::resume
