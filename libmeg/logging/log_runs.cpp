#include "libmeg/logging/log_runs.h"

#include <fmt/format.h>

#include <algorithm>

namespace meg::logging {
namespace {

/// "line 12" or, in event files, "iteration 100".
std::string place_of(const LoggedSteps& steps) {
  return steps.line > 0 ? fmt::format("line {}", steps.line)
                        : fmt::format("iteration {}", steps.iteration);
}

/// Steps between the first two lines of a run; without a second line any distance is possible.
int64_t interval_of(const RunLog& log, const LoggedRun& run) {
  if (log.of_single_steps) return 1;
  if (run.end - run.begin < 2) return log.steps[run.begin].iteration;
  return log.steps[run.begin + 1].iteration - log.steps[run.begin].iteration;
}

std::vector<LoggedInterval> lines_after(const RunLog& log, const LoggedRun& run,
                                        int64_t iteration) {
  std::vector<LoggedInterval> lines;
  const int64_t interval = interval_of(log, run);
  for (size_t i = run.begin; i < run.end; ++i) {
    const LoggedSteps& line = log.steps[i];
    if (line.iteration <= iteration) continue;
    // A run's first line is about the steps since it began, at most as many as between two lines.
    int64_t after =
        i > run.begin ? log.steps[i - 1].iteration : std::max(iteration, line.iteration - interval);
    if (run.load.has_value()) after = std::max(after, run.load->iteration);
    if (i == run.begin + 1 && counts_first_step_twice(log, run, iteration)) {
      after = log.steps[run.begin].iteration - 1;
    }
    if (log.of_single_steps) after = line.iteration - 1;
    // What began before the checkpoint is about steps that it does not have.
    if (after >= iteration) lines.push_back({.after = after, .line = line});
  }
  return lines;
}

}  // namespace

std::vector<LoggedRun> runs_in(const RunLog& log) {
  std::vector<LoggedRun> runs;
  size_t next_load = 0;
  for (size_t i = 0; i < log.steps.size(); ++i) {
    std::optional<LoggedLoad> load;
    for (; next_load < log.loads.size() && log.loads[next_load].line < log.steps[i].line;
         ++next_load) {
      load = log.loads[next_load];
    }
    const bool begins =
        runs.empty() || load.has_value() || log.steps[i].iteration <= log.steps[i - 1].iteration;
    if (begins) runs.push_back({.begin = i, .end = i, .load = load});
    runs.back().end = i + 1;
  }
  return runs;
}

bool counts_first_step_twice(const RunLog& log, const LoggedRun& run, int64_t begin) {
  const LoggedSteps& first = log.steps[run.begin];
  // A line that is not about a run's first step alone comes from the middle of a log.
  return first.has_microseconds &&
         first.iteration <= (run.load.has_value() ? run.load->iteration : begin) + 1;
}

Result<LoggedResume> find_resume(const RunLog& log, int64_t iteration) {
  const std::vector<LoggedRun> runs = runs_in(log);
  int64_t last = 0;
  int64_t first_later = 0;
  for (const LoggedSteps& steps : log.steps) {
    last = std::max(last, steps.iteration);
    if (first_later == 0 && steps.iteration > iteration) first_later = steps.iteration;
  }
  if (last <= iteration) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected lines after iteration {} of the checkpoint, found the last of "
                      "iteration {}",
                      log.path, iteration, last);
  }
  std::optional<LoggedResume> found;
  bool is_loaded = false;
  size_t number = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const LoggedRun& run = runs[i];
    const bool loaded_it = run.load.has_value() && run.load->iteration == iteration;
    // Another checkpoint than this one, later: its state is not known here.
    if (run.load.has_value() && run.load->iteration > iteration) continue;
    if (is_loaded && !loaded_it) continue;
    std::vector<LoggedInterval> lines = lines_after(log, run, iteration);
    if (lines.empty() || lines.front().after != iteration) continue;
    found = LoggedResume{.lines = std::move(lines), .note = {}};
    is_loaded = loaded_it;
    number = i + 1;
  }
  if (!found.has_value()) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected a line whose first step comes after iteration {} of the "
                      "checkpoint, found the next of iteration {}",
                      log.path, iteration, first_later);
  }
  if (runs.size() > 1) {
    found->note = fmt::format("{}: run {} of {} in it, from {} on", log.path, number, runs.size(),
                              place_of(found->lines.front().line));
  }
  return *std::move(found);
}

}  // namespace meg::logging
