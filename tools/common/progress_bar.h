#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

#include "libmeg/base/progress.h"

namespace meg::tools {

/// Shows how far a long piece of work has come: on a terminal one line, redrawn in place; elsewhere
/// Megatron's `Processed 1000 documents (771.7 docs/s, 9.58 MB/s).` every log_interval documents.
/// Rates are means since the start; a MB is 1024 * 1024 bytes. One thread at a time.
class ProgressBar {
 public:
  struct Options {
    bool live = false;                ///< Draw the bar instead of Megatron's lines.
    int64_t log_interval = 1000;      ///< Documents between two lines; no lines where <= 0.
    std::function<double()> clock;    ///< Seconds since any fixed moment.
    std::function<size_t()> columns;  ///< Width of the terminal now.
  };

  /// Writes to `out`, which must outlive the bar; the clock starts now.
  ProgressBar(std::ostream& out, Options options);

  /// Writes to standard error, live where that is a terminal.
  explicit ProgressBar(int64_t log_interval);

  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Clears the live line.
  ~ProgressBar();

  /// Shows `progress` if it is time to: at most ten redraws a second, every line that is due.
  void update(const Progress& progress);

  /// Removes the live line so that something else can be printed.
  void clear();

  /// Shows what is due of the last progress and clears the live line.
  void finish(const Progress& progress);

  /// update() as libmeg's callback, which never asks the work to stop. The bar must outlive it.
  ProgressCallback callback();

  /// The same, which asks the work to stop once the process is interrupted().
  ProgressCallback interruptible_callback();

 private:
  void print_due_lines(const Progress& progress);
  void redraw(const Progress& progress);

  double seconds() const { return options_.clock() - start_; }

  std::ostream& out_;
  Options options_;
  double start_ = 0;
  double last_redraw_ = -1;
  int64_t documents_shown_ = 0;
  bool drawn_ = false;
};

/// The live line for a terminal of `columns` columns: plain ASCII, at most columns - 1 characters.
/// What does not fit is left out, the bar first, then fields from the right.
std::string progress_line(const Progress& progress, double seconds, size_t columns);

/// `seconds` as 59s, 1:02 or 1:02:03.
std::string short_duration(double seconds);

/// A count as 999, 12.3K, 4.56M or 7.89G.
std::string short_count(double count);

}  // namespace meg::tools
