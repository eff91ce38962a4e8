#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libmeg/base/condition_variable.h"
#include "libmeg/base/progress.h"
#include "libmeg/preprocess/internal/chunk_sink.h"
#include "libmeg/preprocess/internal/resume_journal.h"
#include "libmeg/preprocess/internal/tokenized_chunk.h"
#include "libmeg/preprocess/preprocess.h"
#include "libmeg/preprocess/sources/internal/text_source.h"

namespace meg::preprocess {

/// Puts tokenized chunks, which workers finish in any order, into the order of the input. This is
/// the only place where workers synchronize; their memory is bounded by a fixed number of results
/// that circulate.
///
/// A worker takes a free result *before* it asks the source for a chunk. So every chunk in progress
/// has its result, the next one in order always gets done, and no worker waits forever.
class OrderedWriter {
 public:
  /// results: the number that circulate; more than the workers, so that a worker that is ahead need
  /// not wait. token_limit: the memory of a giant line that a result keeps, in tokens per key.
  OrderedWriter(ChunkSink& sink, const PreprocessOptions& options, const TextSource& source,
                DType dtype, size_t results, int64_t token_limit);

  /// Begins at the journal's checkpoint and saves further ones there; it must outlive the writer.
  /// Called before anything else.
  void resume(ResumeJournal& journal);

  /// A cleared result; waits until one is free. Null once the work was stopped.
  std::unique_ptr<TokenizedChunk> take_result();

  /// Accepts a chunk's result. Once all earlier ones have been written, writes it and the later
  /// ones that waited for it. A bad line stops the work if it is an error.
  void commit(std::unique_ptr<TokenizedChunk> result);

  /// Ends the work early; the first reason stays.
  void stop(Status reason);

  /// Whether the work ended early: by stop(), an error, or after max_documents.
  bool stopped() const;

  Status status() const;
  Progress progress() const;

  /// Counts and skipped lines so far; no warnings.
  PreprocessSummary summary() const;

 private:
  using Run = std::vector<std::unique_ptr<TokenizedChunk>>;

  Run take_run();
  void stop_now();
  Status accept(TokenizedChunk& result);
  Status take_checkpoint(const TokenizedChunk& result);
  bool note_written(int64_t number);
  Status save_checkpoint();
  std::string describe(const TokenizedChunk& result, const BadLine& bad) const;
  std::unique_ptr<TokenizedChunk>& slot(int64_t number);

  ChunkSink& sink_;
  const OnError on_error_;
  const int64_t max_documents_;
  const TextSource& source_;
  const int64_t token_limit_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable free_or_stopped_;
  std::vector<std::unique_ptr<TokenizedChunk>> free_;
  std::vector<std::unique_ptr<TokenizedChunk>> waiting_;  // by chunk number, a ring
  int64_t next_ = 0;                                      // the chunk whose turn it is
  int input_ = 0;                                         // of the last accepted chunk
  int64_t lines_before_ = 0;                              // in that input
  PreprocessSummary summary_;
  bool stopped_ = false;
  Status status_;

  // A checkpoint is taken when a chunk is accepted, and saved once it and those before it have been
  // written; the next one is not taken before.
  ResumeJournal* journal_ = nullptr;
  std::set<int64_t> unwritten_;  // chunks accepted
  std::optional<Checkpoint> checkpoint_;
  int64_t checkpoint_chunk_ = 0;  // its last
  bool is_saving_ = false;
};

}  // namespace meg::preprocess
