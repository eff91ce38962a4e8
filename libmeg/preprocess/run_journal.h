#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/file_lock.h"

namespace meg::preprocess {

/// Names and values, in an order that counts. Neither has line ends, names have no tabs.
using JournalLines = std::vector<std::pair<std::string, std::string>>;

/// A text of any bytes on one line without tabs; different texts differ.
std::string one_line(std::string_view text);

/// Appends what shows, without reading them, that inputs are the same as before. kUnsupported for
/// pipes and standard input.
Status add_inputs(const std::vector<std::string>& inputs, JournalLines& lines);

/// `PREFIX.resume/journal`: what a run depends on and its last checkpoint, under a checksum. A
/// new checkpoint replaces the file by rename. Held by one process at a time. In a folder of its
/// own, because tools that merge all datasets of a folder take every file there for a dataset's.
class RunJournal {
 public:
  /// Opens that of the run that `run` describes. kInvalidArgument if the journal is another run's,
  /// naming the first difference; kCorruption if it is damaged; kIoError where another process has
  /// it. interval: between checkpoints.
  static Result<RunJournal> open(const std::string& prefix, JournalLines run,
                                 std::chrono::milliseconds interval);

  /// Removes, for a run that does not resume, the journal of a finished run, which would no longer
  /// be true. kInvalidArgument if the outputs belong to an unfinished run.
  static Status make_way(const std::string& prefix);

  const std::string& path() const { return path_; }

  /// The last checkpoint; none where there was none.
  const std::optional<JournalLines>& state() const { return state_; }

  /// Whether only publishing the outputs may be left to do.
  bool is_complete() const { return is_complete_; }

  /// That a checkpoint does not say what it should.
  Status damaged() const;

  /// Whether the last save() is long enough ago. The first is due at once.
  bool is_due() const;

  Status save(bool is_complete, const JournalLines& state);

 private:
  Status check_same(const JournalLines& found) const;

  std::string path_;
  io::FileLock lock_;
  JournalLines run_;
  std::optional<JournalLines> state_;
  bool is_complete_ = false;
  std::chrono::milliseconds interval_{};
  std::chrono::steady_clock::time_point next_;
};

}  // namespace meg::preprocess
