#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/preprocess/preprocess.h"
#include "libmeg/preprocess/run_journal.h"

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

/// The RunJournal of a preprocess().
class ResumeJournal {
 public:
  /// RunJournal::open(), and kUnsupported for pipes and partitions.
  static Result<ResumeJournal> open(const PreprocessOptions& options, DType dtype);

  /// RunJournal::make_way().
  static Status make_way(const PreprocessOptions& options);

  const std::string& path() const { return journal_.path(); }

  /// Where the last process came to; at the begin where there was none.
  const Checkpoint& checkpoint() const { return checkpoint_; }

  bool is_due() const { return journal_.is_due(); }

  Status save(const Checkpoint& checkpoint);

 private:
  explicit ResumeJournal(RunJournal journal) : journal_(std::move(journal)) {}

  RunJournal journal_;
  Checkpoint checkpoint_;
};

}  // namespace meg::preprocess
