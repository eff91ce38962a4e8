#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/io/file_lock.h"
#include "libmeg/preprocess/preprocess.h"

namespace meg::preprocess {

/// How far preprocess() is, at the end of a chunk of which all before has been written.
struct Checkpoint {
  bool is_complete = false;   ///< Only publishing the outputs may be left to do.
  int64_t input = 0;          ///< index of the input to continue with
  int64_t offset = 0;         ///< in its content
  int64_t lines = 0;          ///< of that input, before there
  PreprocessSummary summary;  ///< Only its numbers.
  std::vector<dataset::IndexedDatasetBuilder::Mark> marks;  ///< one a JSON key
};

/// `<prefix>.resume/journal`: what a run depends on and its last checkpoint, under a checksum. A
/// new checkpoint replaces the file by rename. Held by one process at a time. In a folder of its
/// own, because tools that merge all datasets of a folder take every file there for a dataset's.
class ResumeJournal {
 public:
  /// Opens that of the run `options` describe. kInvalidArgument if the journal is another run's,
  /// naming the first difference; kCorruption if it is damaged; kUnsupported for pipes and
  /// partitions; kIoError where another process has it.
  static Result<ResumeJournal> open(const PreprocessOptions& options, DType dtype);

  /// Removes, for a run that does not resume, the journal of a finished run, which would no longer
  /// be true. kInvalidArgument if the outputs belong to an unfinished run.
  static Status make_way(const PreprocessOptions& options);

  const std::string& path() const { return path_; }

  /// Where the last process came to; at the begin where there was none.
  const Checkpoint& checkpoint() const { return checkpoint_; }

  /// Whether the last save() is long enough ago. The first is due at once.
  bool is_due() const;

  Status save(const Checkpoint& checkpoint);

 private:
  using Lines = std::vector<std::pair<std::string, std::string>>;  // names and values

  Status describe(const PreprocessOptions& options, DType dtype);
  Status describe_inputs(const PreprocessOptions& options);
  Status check_same(const Lines& found) const;
  void add(std::string name, std::string value);

  std::string path_;
  io::FileLock lock_;
  Lines run_;  // what the bytes depend on
  Checkpoint checkpoint_;
  std::chrono::milliseconds interval_{};
  std::chrono::steady_clock::time_point next_;
};

}  // namespace meg::preprocess
