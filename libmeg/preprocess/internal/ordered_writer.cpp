#include "libmeg/preprocess/internal/ordered_writer.h"

#include <limits>
#include <utility>

// The turn of a chunk is its number. Results wait in a ring by number modulo their count; whoever
// brings the chunk whose turn it is takes along all that waited for it, reserves their places under
// the lock, and writes them without it.
//
// Two steps under one lock keep outputs independent of scheduling: documents are accepted in order,
// and so are errors, the limit of documents and the counts for messages.

namespace meg::preprocess {

OrderedWriter::OrderedWriter(ChunkSink& sink, const PreprocessOptions& options,
                             const TextSource& source, DType dtype, size_t results,
                             int64_t token_limit)
    : sink_(sink),
      on_error_(options.on_error),
      max_documents_(options.max_documents.value_or(std::numeric_limits<int64_t>::max())),
      source_(source),
      token_limit_(token_limit),
      waiting_(results) {
  free_.reserve(results);
  for (size_t i = 0; i < results; ++i) {
    free_.push_back(std::make_unique<TokenizedChunk>(options.json_keys.size(), dtype));
  }
}

void OrderedWriter::resume(ResumeJournal& journal) {
  const Checkpoint& from = journal.checkpoint();
  journal_ = &journal;
  input_ = static_cast<int>(from.input);
  lines_before_ = from.lines;
  summary_ = from.summary;
}

std::unique_ptr<TokenizedChunk> OrderedWriter::take_result() {
  std::unique_lock lock(mutex_);
  free_or_stopped_.wait(lock, [this] { return stopped_ || !free_.empty(); });
  if (stopped_) return nullptr;
  std::unique_ptr<TokenizedChunk> result = std::move(free_.back());
  free_.pop_back();
  return result;
}

void OrderedWriter::commit(std::unique_ptr<TokenizedChunk> result) {
  Run run;
  {
    const std::lock_guard lock(mutex_);
    const int64_t number = result->number;
    slot(number) = std::move(result);
    run = take_run();
  }
  // Write outside of the lock: writing is the long part, and the places are fixed already.
  for (std::unique_ptr<TokenizedChunk>& written : run) {
    Status status = sink_.write(*written);
    if (status.ok() && note_written(written->number)) status = save_checkpoint();
    if (!status.ok()) stop(std::move(status));
    // Back into the ring after writing. A chunk that is under way holds its result, so memory is
    // bounded by their number.
    written->clear(token_limit_);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(written));
    free_or_stopped_.notify_one();
  }
}

/// The results whose turn has come, accepted.
OrderedWriter::Run OrderedWriter::take_run() {
  Run run;
  while (!stopped_ && slot(next_) != nullptr) {
    std::unique_ptr<TokenizedChunk> result = std::move(slot(next_));
    // An error counts when its turn has come: with more threads a later line's error may be found
    // first.
    status_ = accept(*result);
    if (!status_.ok()) {
      stop_now();
      break;
    }
    unwritten_.insert(result->number);
    run.push_back(std::move(result));
    ++next_;
    if (summary_.documents == max_documents_) stop_now();
  }
  return run;
}

Status OrderedWriter::accept(TokenizedChunk& result) {
  if (result.input != input_) lines_before_ = 0;
  input_ = result.input;
  // The limit falls into this chunk. Errors after it are none: a run for the first documents alone
  // would not have read them.
  const bool is_last = result.documents >= max_documents_ - summary_.documents;
  if (is_last) result.truncate(max_documents_ - summary_.documents);
  if (on_error_ == OnError::kFail && !is_last && !result.bad_lines.empty()) {
    const BadLine& bad = result.bad_lines.front();
    return Status(bad.error.code(), describe(result, bad));
  }
  if (!result.source_error.ok() && !is_last) return result.source_error;
  MEG_RETURN_IF_ERROR(sink_.reserve(result));
  for (const BadLine& bad : result.bad_lines) {
    if (summary_.skipped_examples.size() == TokenizedChunk::kReportedBadLines) break;
    summary_.skipped_examples.push_back(describe(result, bad));
  }
  lines_before_ += result.lines;
  summary_.documents += result.documents;
  summary_.input_bytes += result.input_bytes;
  summary_.text_bytes += result.text_bytes;
  summary_.text_tokens += result.text_tokens;
  summary_.blank_lines += result.blank_lines;
  summary_.skipped_lines += result.bad_line_count;
  summary_.short_documents += std::ssize(result.short_documents);
  for (const KeyTokens& key : result.keys) {
    for (const KeyTokens::Piece& piece : key.pieces) summary_.tokens += piece.token_count;
  }
  // Between two chunks is the only place where a run can be resumed.
  return is_last ? Status() : take_checkpoint(result);
}

Status OrderedWriter::take_checkpoint(const TokenizedChunk& result) {
  // One checkpoint is on its way at a time; the next one is taken when it has been saved and is due
  // again.
  if (journal_ == nullptr || checkpoint_.has_value() || !journal_->is_due()) return Status();
  // What the checkpoint says is fixed now, in order. It may be saved only when the chunks before it
  // have been written, which happens in any order: see note_written().
  MEG_ASSIGN_OR_RETURN(ChunkSink::Marks marks, sink_.marks());
  checkpoint_ = {.is_complete = false,
                 .input = result.input,
                 .offset = result.end,
                 .lines = lines_before_,
                 .summary = summary_,
                 .marks = std::move(marks)};
  checkpoint_chunk_ = result.number;
  return Status();
}

// Whether all up to the checkpoint's chunk is written now, so that the caller is to save it.
// Exactly one caller gets this answer.
bool OrderedWriter::note_written(int64_t number) {
  const std::lock_guard lock(mutex_);
  unwritten_.erase(number);
  const bool is_ready = checkpoint_.has_value() && !is_saving_ &&
                        (unwritten_.empty() || *unwritten_.begin() > checkpoint_chunk_);
  if (is_ready) is_saving_ = true;
  return is_ready;
}

Status OrderedWriter::save_checkpoint() {
  // The bytes first, then the journal that says they are there: the other way round, a power cut
  // could leave a journal that names bytes which never reached the disk.
  MEG_RETURN_IF_ERROR(sink_.sync());
  MEG_RETURN_IF_ERROR(journal_->save(*checkpoint_));
  const std::lock_guard lock(mutex_);
  checkpoint_.reset();
  is_saving_ = false;
  return Status();
}

std::string OrderedWriter::describe(const TokenizedChunk& result, const BadLine& bad) const {
  const std::string& name = source_.names()[static_cast<size_t>(result.input)];
  if (bad.line == BadLine::kPlaced) return fmt::format("{}: {}", name, bad.error.message());
  const Result<int64_t> counted = source_.lines_before(result.input);
  const int64_t before = counted.has_value() ? *counted : 0;
  return fmt::format("{}: line {}, {}", name, before + lines_before_ + bad.line + 1,
                     bad.error.message());
}

std::unique_ptr<TokenizedChunk>& OrderedWriter::slot(int64_t number) {
  // No two chunks under way have the same slot: there are as many slots as results, and each holds
  // one.
  return waiting_[static_cast<size_t>(number) % waiting_.size()];
}

void OrderedWriter::stop(Status reason) {
  const std::lock_guard lock(mutex_);
  // Record it also after the last of max_documents, whose chunk may still be on its way to disk.
  if (status_.ok()) status_ = std::move(reason);
  stop_now();
}

void OrderedWriter::stop_now() {
  stopped_ = true;
  free_or_stopped_.notify_all();
}

bool OrderedWriter::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

Status OrderedWriter::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

Progress OrderedWriter::progress() const {
  const std::lock_guard lock(mutex_);
  return {
      .documents = summary_.documents, .tokens = summary_.tokens, .bytes = summary_.input_bytes};
}

PreprocessSummary OrderedWriter::summary() const {
  const std::lock_guard lock(mutex_);
  return summary_;
}

}  // namespace meg::preprocess
