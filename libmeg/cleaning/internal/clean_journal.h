#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/duplicates/exact_duplicates.h"
#include "libmeg/cleaning/duplicates/near_duplicates.h"
#include "libmeg/cleaning/internal/output.h"
#include "libmeg/cleaning/internal/record_log.h"
#include "libmeg/cleaning/internal/signature_file.h"
#include "libmeg/preprocess/read_texts.h"
#include "libmeg/preprocess/run_journal.h"

namespace meg::cleaning {

/// A call of ExactDuplicates::add() whose text had not come before.
struct DigestRecord {
  TextDigest digest;
  int64_t number = 0;
};

/// A call of NearDuplicates::add() without shingles.
struct SignatureRecord {
  SignedDocument document;
  std::array<uint64_t, kHashes> signature{};
};

/// How far clean() is, at the end of a part of which all before has been written.
struct CleanCheckpoint {
  preprocess::ReadPosition position;
  CleanSummary summary;
  int64_t held = 0, held_bytes = 0, held_pieces = 0;  ///< As in SharedState.
  int64_t digests = 0, signatures = 0;                ///< Records of the logs.
  std::vector<OutputMark> outputs;
};

/// What a killed clean() leaves for the next one: `OUTPUT.resume/` with the journal, the documents
/// that are held and logs of what was told to ExactDuplicates and NearDuplicates, which are filled
/// again from them.
class CleanJournal {
 public:
  /// RunJournal::open(); kUnsupported for pipes.
  static Result<std::unique_ptr<CleanJournal>> open(const CleanOptions& options);

  const std::string& path() const { return journal_.path(); }

  /// Whether there was one.
  bool has_checkpoint() const { return journal_.state().has_value(); }

  /// Where the last process came to; at the begin where there was none.
  const CleanCheckpoint& checkpoint() const { return checkpoint_; }

  bool is_complete() const { return journal_.is_complete(); }

  /// The file of held documents, up to the checkpoint.
  Result<io::AtomicFile> open_held() const;

  /// That a checkpoint does not say what it should.
  Status damaged() const { return journal_.damaged(); }

  /// Hands the records of the logs to `exact` and `near`, which are empty; either may be null.
  Status replay(ExactDuplicates* exact, NearDuplicates* near);

  // Where parts are settled.
  Status add(const DigestRecord& record) { return digests_->add(record); }

  Status add(const SignatureRecord& record) { return signatures_->add(record); }

  /// Whether a checkpoint is due and none is on its way.
  bool is_due() const { return !is_saving_ && journal_.is_due(); }

  /// A checkpoint with the numbers of the logs.
  Result<CleanCheckpoint> begin_checkpoint();

  /// Flushes to the device; from any thread.
  Status sync();

  /// Ends begin_checkpoint(), once all before it has been flushed.
  Status save(const CleanCheckpoint& checkpoint);

  /// Saves that only publishing is left.
  Status save_complete(const CleanCheckpoint& checkpoint);

  /// Removes what a complete run does not need.
  void remove_files() const;

 private:
  CleanJournal(preprocess::RunJournal journal, std::string folder)
      : journal_(std::move(journal)), folder_(std::move(folder)) {}

  Status take_checkpoint(size_t outputs);

  preprocess::RunJournal journal_;
  std::string folder_;
  CleanCheckpoint checkpoint_;
  std::atomic<bool> is_saving_ = false;
  std::optional<RecordLog<DigestRecord>> digests_;
  std::optional<RecordLog<SignatureRecord>> signatures_;
};

}  // namespace meg::cleaning
