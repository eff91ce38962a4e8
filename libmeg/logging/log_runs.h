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
