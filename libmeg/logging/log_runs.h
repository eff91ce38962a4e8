#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/logging/run_log.h"

namespace meg::logging {

/// One of the runs whose lines stand one after another in a log.
struct LoggedRun {
  size_t begin = 0, end = 0;       ///< Of RunLog::steps; at least one.
  std::optional<LoggedLoad> load;  ///< What it said that it loaded.
};

/// The runs in a log: one begins where iterations do not rise, or after a line that says that a
/// checkpoint was loaded.
std::vector<LoggedRun> runs_in(const RunLog& log);

/// Whether the second line of a run counts the step of the first one, too. Since core_v0.16 a run
/// prints a line after its first step, whatever --log-interval says, and goes on counting. `begin`:
/// the iteration from which the run went on, where the log does not say it.
bool counts_first_step_twice(const RunLog& log, const LoggedRun& run, int64_t begin);

/// A line with the steps that it is about: iterations after + 1 to line.iteration.
struct LoggedInterval {
  int64_t after = 0;
  LoggedSteps line;
};

/// The lines of a run that went on after an iteration.
struct LoggedResume {
  std::vector<LoggedInterval> lines;  ///< Whole ones, at least one.
  std::string note;                   ///< Which run of several; empty if there is one.
};

/// Finds the last run in `log` that went on from `iteration`, which it loaded or passed.
/// kInvalidArgument if the log ends before, begins after, or has no line of steps after it alone.
Result<LoggedResume> find_resume(const RunLog& log, int64_t iteration);

}  // namespace meg::logging
