#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/logging/run_log.h"

namespace meg::logging {

/// Something in a log that a run as it should be does not have.
struct RunFinding {
  std::string kind;       ///< "gap", "repeated", "not-finite" and so on, see find_in_run().
  int64_t line = 0;       ///< Of the log, from 1; 0 in event files.
  int64_t iteration = 0;  ///< The first that it is about.
  int64_t last = 0;       ///< The last.
  std::string text;
};

/// Finds, in the order of the log:
/// - gap: iterations that no line is about, within a run and between two runs
/// - repeated: iterations that a later run computed again, and how their losses differ
/// - spike: a loss or gradient norm far above those before it, by their median and its deviation
/// - learning-rate: a jump that the rates around it do not have
/// - slow: three lines or more that took half as long again as those before, together a second
/// - not-finite: lines with a loss or gradient norm that is no number
/// - skipped: iterations whose update was skipped after one that was not
std::vector<RunFinding> find_in_run(const RunLog& log);

}  // namespace meg::logging
