#include "libmeg/logging/run_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "libmeg/logging/log_runs.h"

namespace meg::logging {
namespace {

/// Lines before one that say what is usual, and the fewest that can.
constexpr size_t kHistory = 50;
constexpr size_t kLeastHistory = 10;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The last values, and how they spread.
class History {
 public:
  void add(double value) {
    values_.push_back(value);
    if (values_.size() > kHistory) values_.erase(values_.begin());
  }

  void clear() { values_.clear(); }

  bool is_long_enough() const { return values_.size() >= kLeastHistory; }

  double middle() const { return median(values_); }

  /// The median of the distances from the median.
  double deviation() const {
    std::vector<double> distances;
    const double from = middle();
    for (const double value : values_) distances.push_back(std::abs(value - from));
    return median(std::move(distances));
  }

 private:
  std::vector<double> values_;
};

class Finder {
 public:
  explicit Finder(const RunLog& log) : log_(log), runs_(runs_in(log)) {}

  std::vector<RunFinding> find() {
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (i > 0) compare_runs(runs_[i - 1], runs_[i]);
      find_gaps(runs_[i]);
      find_skipped(runs_[i]);
      find_not_finite(runs_[i]);
      find_spikes(runs_[i], "lm loss", &LoggedSteps::lm_loss, kLossSpike);
      find_spikes(
          runs_[i], "grad norm", [](const LoggedSteps& steps) { return steps.grad_norm; },
          kNormSpike);
      find_jumps(runs_[i]);
      find_slow_lines(runs_[i]);
    }
    std::ranges::stable_sort(found_, [](const RunFinding& a, const RunFinding& b) {
      return a.line != b.line ? a.line < b.line : a.iteration < b.iteration;
    });
    return std::move(found_);
  }

 private:
  /// How far above the median, relative, and in deviations a value must be.
  struct Spike {
    double relative;
    double deviations;
  };

  static constexpr Spike kLossSpike = {.relative = 0.05, .deviations = 10};
  static constexpr Spike kNormSpike = {.relative = 4, .deviations = 20};

  const LoggedSteps& at(size_t i) const { return log_.steps[i]; }

  void add(std::string kind, const LoggedSteps& first, int64_t from, int64_t last,
           std::string text) {
    found_.push_back({.kind = std::move(kind),
                      .line = first.line,
                      .iteration = from,
                      .last = last,
                      .text = std::move(text)});
  }

  int64_t interval(const LoggedRun& run) const {
    std::vector<double> steps;
    for (size_t i = run.begin + 1; i < run.end; ++i) {
      steps.push_back(static_cast<double>(at(i).iteration - at(i - 1).iteration));
    }
    return steps.empty() ? 1 : std::max<int64_t>(1, static_cast<int64_t>(median(steps)));
  }

  void find_gaps(const LoggedRun& run) {
    const int64_t usual = interval(run);
    for (size_t i = run.begin + 1; i < run.end; ++i) {
      const int64_t before = at(i - 1).iteration;
      const int64_t first = at(i).iteration - usual + 1;
      if (first <= before + 1) continue;
      add("gap", at(i), before + 1, first - 1,
          fmt::format("iterations {} to {} are in no line", before + 1, first - 1));
    }
  }

  /// Of a run that follows another one.
  int64_t first_step(const LoggedRun& before, const LoggedRun& run) const {
    const LoggedSteps& line = at(run.begin);
    if (run.load.has_value()) return run.load->iteration + 1;
    if (counts_first_step_twice(log_, run, line.iteration)) return line.iteration;
    const int64_t usual = run.end - run.begin > 1 ? interval(run) : interval(before);
    return std::max<int64_t>(1, line.iteration - usual + 1);
  }

  /// Losses by the step before a line's first and by its last.
  std::map<std::pair<int64_t, int64_t>, double> losses_of(const LoggedRun& run,
                                                          int64_t first_step) const {
    std::map<std::pair<int64_t, int64_t>, double> losses;
    const int64_t first_line = at(run.begin).iteration;
    const bool counts_twice = counts_first_step_twice(log_, run, first_line);
    int64_t after = first_step - 1;
    for (size_t i = run.begin; i < run.end; ++i) {
      if (counts_twice && i == run.begin + 1) after = first_line - 1;
      if (log_.of_single_steps) after = at(i).iteration - 1;
      if (const auto loss = at(i).lm_loss()) losses[{after, at(i).iteration}] = loss->value;
      after = at(i).iteration;
    }
    return losses;
  }

  /// What one run did again, or left out, of another.
  void compare_runs(const LoggedRun& before, const LoggedRun& run) {
    const int64_t reached = at(before.end - 1).iteration;
    const int64_t first = first_step(before, run);
    if (first > reached + 1) {
      add("gap", at(run.begin), reached + 1, first - 1,
          fmt::format("iterations {} to {} are in no line: the run before ended at {}, this one "
                      "begins with {}",
                      reached + 1, first - 1, reached, first));
    }
    if (first > reached) return;
    const auto losses = losses_of(before, first_step(before, before));
    double largest = 0;
    int64_t compared = 0;
    for (const auto& [steps, loss] : losses_of(run, first)) {
      const auto other = losses.find(steps);
      if (other == losses.end()) continue;
      ++compared;
      largest = std::max(largest, std::abs(loss - other->second) / std::abs(other->second));
    }
    std::string text = fmt::format("iterations {} to {} are computed again", first, reached);
    if (compared > 0) {
      text += fmt::format("; their losses differ by {:.1e} at most, relative, in {} line{}",
                          largest, compared, compared == 1 ? "" : "s");
    }
    add("repeated", at(run.begin), first, reached, std::move(text));
  }

  void find_skipped(const LoggedRun& run) {
    bool has_updates = false;
    for (size_t i = run.begin; i < run.end; ++i) {
      const int64_t skipped = at(i).skipped_iterations.value_or(0);
      const int64_t nan = at(i).nan_iterations.value_or(0);
      // The first are the search of a dynamic loss scale.
      if ((skipped > 0 && has_updates) || nan > 0) {
        add("skipped", at(i), at(i).iteration, at(i).iteration,
            fmt::format("{} skipped iteration{}, {} of them with NaN", skipped,
                        skipped == 1 ? "" : "s", nan));
      }
      has_updates |= skipped == 0;
    }
  }

  /// Of lines in a row the first, since nothing after it is a number any more.
  void find_not_finite(const LoggedRun& run) {
    const auto is_finite = [](const std::optional<LoggedFigure>& figure) {
      return !figure.has_value() || std::isfinite(figure->value);
    };
    const auto is_whole = [&](size_t i) {
      return is_finite(at(i).lm_loss()) && is_finite(at(i).grad_norm);
    };
    for (size_t i = run.begin; i < run.end; ++i) {
      if (is_whole(i)) continue;
      const size_t first = i;
      while (i + 1 < run.end && !is_whole(i + 1)) ++i;
      const bool is_loss = !is_finite(at(first).lm_loss());
      const auto figure = is_loss ? at(first).lm_loss() : at(first).grad_norm;
      add("not-finite", at(first), at(first).iteration, at(i).iteration,
          fmt::format("{} {}", is_loss ? "lm loss" : "grad norm", figure->value));
    }
  }

  template <class Value>
  void find_spikes(const LoggedRun& run, std::string_view name, Value value, const Spike& spike) {
    History history;
    for (size_t i = run.begin; i < run.end; ++i) {
      const std::optional<LoggedFigure> figure = std::invoke(value, at(i));
      if (!figure.has_value() || !std::isfinite(figure->value)) continue;
      if (history.is_long_enough()) {
        const double middle = history.middle();
        const double above = figure->value - middle;
        if (above > spike.relative * std::abs(middle) &&
            above > spike.deviations * history.deviation()) {
          add("spike", at(i), at(i).iteration, at(i).iteration,
              fmt::format("{} {:.6g} after a median of {:.6g}", name, figure->value, middle));
          continue;  // So that it does not become usual.
        }
      }
      history.add(figure->value);
    }
  }

  void find_jumps(const LoggedRun& run) {
    for (size_t i = run.begin + 2; i + 1 < run.end; ++i) {
      const auto change = [&](size_t to) -> std::optional<double> {
        const auto& before = at(to - 1).learning_rate;
        const auto& after = at(to).learning_rate;
        if (!before.has_value() || !after.has_value()) return std::nullopt;
        return after->value - before->value;
      };
      const auto before = change(i - 1), here = change(i), after = change(i + 1);
      if (!before.has_value() || !here.has_value() || !after.has_value()) continue;
      const double rate = at(i - 1).learning_rate->value;
      constexpr double kJump = 10, kLeast = 0.02;
      const double around = std::max(std::abs(*before), std::abs(*after));
      if (std::abs(*here) <= kJump * around || std::abs(*here) <= kLeast * std::abs(rate)) continue;
      add("learning-rate", at(i), at(i).iteration, at(i).iteration,
          fmt::format("learning rate {:.6E} after {:.6E}: a step that the rates around it do not "
                      "have",
                      at(i).learning_rate->value, rate));
    }
  }

  void find_slow_lines(const LoggedRun& run) {
    constexpr double kSlow = 1.5;
    constexpr size_t kLines = 3;
    // A few steps of milliseconds are slow whenever the machine does something else.
    constexpr double kLeastMilliseconds = 1000;
    double lost = 0;  // by the slow lines
    History history;
    size_t since = run.end;  // of slow lines; the run's end: none
    const auto end = [&](size_t at_line) {
      if (at_line >= since + kLines && lost >= kLeastMilliseconds) {
        add("slow", at(since), at(since).iteration, at(at_line - 1).iteration,
            fmt::format("{:.1f} ms per iteration and more after a median of {:.1f}, up to "
                        "iteration {}",
                        at(since).milliseconds->value, history.middle(),
                        at(at_line - 1).iteration));
      }
      since = run.end;
      lost = 0;
    };
    for (size_t i = run.begin; i < run.end; ++i) {
      const auto& time = at(i).milliseconds;
      if (!time.has_value() || !std::isfinite(time->value)) continue;
      const bool is_slow = history.is_long_enough() && time->value > kSlow * history.middle();
      if (is_slow) {
        since = std::min(since, i);
        const auto iterations = static_cast<double>(at(i).iteration - at(i - 1).iteration);
        lost += (time->value - history.middle()) * iterations;
        continue;
      }
      end(i);
      // The first line of a run has its start in it.
      if (i > run.begin) history.add(time->value);
    }
    end(run.end);
  }

  const RunLog& log_;
  std::vector<LoggedRun> runs_;
  std::vector<RunFinding> found_;
};

}  // namespace

std::vector<RunFinding> find_in_run(const RunLog& log) { return Finder(log).find(); }

}  // namespace meg::logging
