#include "libmeg/preprocess/read_texts.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include "libmeg/base/condition_variable.h"
#include "libmeg/base/thread_pool.h"
#include "libmeg/preprocess/internal/check_first_documents.h"
#include "libmeg/preprocess/internal/check_input.h"
#include "libmeg/preprocess/internal/chunk_documents.h"
#include "libmeg/preprocess/internal/chunk_places.h"
#include "libmeg/preprocess/sources/internal/document_reader.h"
#include "libmeg/preprocess/sources/internal/text_source.h"

// Reads the texts of inputs for visitors, one thread each, without order: counting words for a
// tokenizer does not need it. Errors are nevertheless the same for any number of threads:
// reasons are kept with the number of their chunk, and the first chunk's one is reported.
//
// In order, a thread that has read a chunk waits until those before it have come as far: chunks are
// handed out in order, so the thread of the first one never waits, and there is one chunk per
// thread.

namespace meg::preprocess {
namespace {

Status check_options(const ReadTextsOptions& options, std::span<TextVisitor* const> visitors) {
  const bool takes_objects =
      options.json_keys.empty() && options.input.format == InputFormat::kJson;
  MEG_RETURN_IF_ERROR(check_input(options.inputs,
                                  takes_objects ? std::vector<std::string>{""} : options.json_keys,
                                  options.max_documents));
  if (visitors.empty() || options.chunk_bytes < 1) {
    return Status(StatusCode::kInvalidArgument, "visitors and chunk_bytes: expected at least 1");
  }
  if (options.max_documents && options.in_order) {
    return Status(StatusCode::kInvalidArgument, "in_order: cannot be combined with max_documents");
  }
  if (!options.max_documents || options.input.shard.count <= 1) return {};
  return Status(StatusCode::kInvalidArgument, "shard: cannot be combined with max_documents");
}

/// What the threads of one read_texts() share.
class Reading {
 public:
  Reading(const ReadTextsOptions& options, TextSource& source)
      : options_(options),
        source_(source),
        documents_left_(options.max_documents.value_or(std::numeric_limits<int64_t>::max())),
        places_(options.start_at.input, options.start_at.lines),
        summary_(options.start_at.summary),
        input_(options.start_at.input),
        lines_(options.start_at.lines) {}

  /// Reads with as many threads as there are visitors.
  Result<ReadTextsSummary> run(std::span<TextVisitor* const> visitors,
                               const ProgressCallback& progress) {
    working_ = visitors.size();
    ThreadPool pool(static_cast<int>(visitors.size()));
    for (TextVisitor* const visitor : visitors) pool.submit([this, visitor] { work(*visitor); });
    watch(progress);
    pool.wait();
    // A bad line and another error are compared by their chunks.
    if (const auto* const first = failing_line()) {
      return Status(first->second.error.code(),
                    places_.describe(source_, first->first, first->second));
    }
    if (!status_.ok()) return status_;
    for (const auto& [chunk, bad] : bad_lines_) add_example(chunk, bad);
    summary_.sources = source_.names();
    summary_.warnings = source_.notes();
    return summary_;
  }

 private:
  using PlacedLine = std::pair<int64_t, BadLine>;  // with its chunk

  /// The bad line that ends the work; null where there is none or something else came before.
  const PlacedLine* failing_line() const {
    if (options_.on_error != OnError::kFail || bad_lines_.empty()) return nullptr;
    const bool is_first = status_.ok() || bad_lines_.front().first <= status_chunk_;
    return is_first ? &bad_lines_.front() : nullptr;
  }

  void watch(const ProgressCallback& progress) {
    std::unique_lock lock(mutex_);
    while (!all_ended_.wait_for(lock, kProgressInterval, [this] { return working_ == 0; })) {
      report(progress, lock);
      if (stopped_ || is_enough()) source_.interrupt();
    }
    if (status_.ok()) report(progress, lock);
  }

  void report(const ProgressCallback& progress, std::unique_lock<std::mutex>& lock) {
    if (!progress) return;
    const Progress now{.documents = summary_.documents,
                       .bytes = summary_.input_bytes,
                       .total_bytes = source_.total_bytes()};
    lock.unlock();
    // Called with the lock, which it gives back around the callback.
    const bool keep_going = progress(now);
    lock.lock();
    if (!keep_going) stop(Status(StatusCode::kCancelled, "interrupted"), kFirst);
  }

  void work(TextVisitor& visitor) {
    try {
      read_chunks(visitor);
    } catch (const std::bad_alloc&) {
      const std::lock_guard lock(mutex_);
      stop(Status(StatusCode::kResourceExhausted, "out of memory while reading texts"), kFirst);
    }
    const std::lock_guard lock(mutex_);
    --working_;
    all_ended_.notify_one();
  }

  void read_chunks(TextVisitor& visitor) {
    DocumentReader reader(options_.json_keys);
    TextChunk chunk;
    while (!stopped()) {
      const Result<bool> more = source_.next(chunk);
      if (!more.has_value()) {
        if (options_.in_order && !wait_for_turn(settled_, chunk.number)) return;
        const std::lock_guard lock(mutex_);
        return stop(more.error(), chunk.number);
      }
      if (!*more) return;
      read_chunk(chunk, reader, visitor);
    }
  }

  /// Waits until `done` parts are all before this one; false where it does not count any more.
  bool wait_for_turn(const int64_t& done, int64_t number) {
    std::unique_lock lock(mutex_);
    turn_changed_.wait(lock, [&] { return stopped_ || number > last_part_ || done == number; });
    return !stopped_ && number <= last_part_;
  }

  void take_turn(int64_t& done) {
    ++done;
    turn_changed_.notify_all();
  }

  void read_chunk(const TextChunk& chunk, DocumentReader& reader, TextVisitor& visitor) {
    int64_t left = documents_left_;  // Only one thread reads where there is a limit.
    int64_t text_bytes = 0;
    Status error;  // of the visitor
    visitor.begin_part(chunk.number);
    const auto take = [&](std::string_view document, size_t record) -> Result<bool> {
      if (left == 0 || !error.ok()) return true;
      MEG_RETURN_IF_ERROR(reader.read(document, record, chunk));
      bool has_list = false;
      for (size_t key = 0; key < options_.json_keys.size(); ++key) {
        has_list = has_list || reader.texts(key).is_list();
      }
      const bool is_json =
          chunk.format == RecordFormat::kJsonLines || chunk.format == RecordFormat::kJsonElements;
      MEG_RETURN_IF_ERROR(visitor.begin_document(is_json ? document : std::string_view(), has_list,
                                                 place_of(document, record, chunk)));
      --left;
      for (size_t key = 0; key < options_.json_keys.size(); ++key) {
        for (const std::string_view text : reader.texts(key)) {
          text_bytes += static_cast<int64_t>(text.size());
          error = visitor.visit(text);
          if (!error.ok()) return true;
        }
      }
      return true;
    };
    DocumentCounts counts;
    read_documents(chunk, options_.on_error == OnError::kFail, take, counts);
    counts.documents = std::min(counts.documents, documents_left_);
    if (!options_.in_order) {
      const std::lock_guard lock(mutex_);
      return finish(chunk, counts, text_bytes, std::move(error));
    }
    if (!wait_for_turn(settled_, chunk.number)) return;
    bool more = true;
    ReadPosition end;
    if (error.ok()) {
      const Result<bool> settled = visitor.settle();
      error = settled.status();
      more = !settled.has_value() || *settled;
    }
    {
      const std::lock_guard lock(mutex_);
      if (!more) last_part_ = chunk.number;
      finish(chunk, counts, text_bytes, std::move(error));
      end = move_on(chunk, counts.lines);
      take_turn(settled_);
    }
    error = visitor.pack();
    if (!wait_for_turn(written_, chunk.number)) return;
    if (error.ok()) error = visitor.write(end);
    const bool is_written = error.ok();
    {
      const std::lock_guard lock(mutex_);
      if (!is_written) stop(std::move(error), chunk.number);
      take_turn(written_);
    }
    if (!is_written) return;
    error = visitor.end_part();
    if (error.ok()) return;
    const std::lock_guard lock(mutex_);
    stop(std::move(error), chunk.number);
  }

  void finish(const TextChunk& chunk, const DocumentCounts& counts, int64_t text_bytes,
              Status error) {
    if (options_.max_documents) documents_left_ -= counts.documents;
    places_.add(chunk, counts);
    summary_.documents += counts.documents;
    summary_.input_bytes += static_cast<int64_t>(chunk.lines.size());
    summary_.text_bytes += text_bytes;
    summary_.skipped_lines += counts.bad_line_count;
    if (chunk.number == last_part_ && error.ok()) return;  // Its bad line is none.
    if (options_.in_order && options_.on_error == OnError::kSkip) {
      for (const BadLine& bad : counts.bad_lines) add_example(chunk.number, bad);
    } else {
      keep_first(chunk.number, counts.bad_lines);
    }
    const bool is_bad = counts.bad_line_count > 0 && options_.on_error == OnError::kFail;
    if (is_bad || documents_left_ == 0) stopped_ = true;
    turn_changed_.notify_all();
    if (!error.ok()) stop(std::move(error), chunk.number);
    if (!chunk.error.ok() && documents_left_ > 0) stop(chunk.error, chunk.number);
  }

  /// The end of the part that was settled.
  ReadPosition move_on(const TextChunk& chunk, int64_t lines) {
    lines_ = (chunk.input == input_ ? lines_ : 0) + lines;
    input_ = chunk.input;
    return {.input = input_, .offset = chunk.end, .lines = lines_, .summary = summary_};
  }

  /// Parts before the chunk must have been added.
  void add_example(int64_t chunk, const BadLine& bad) {
    if (summary_.skipped_examples.size() >= DocumentCounts::kReportedBadLines) return;
    summary_.skipped_examples.push_back(places_.describe(source_, chunk, bad));
  }

  /// Keeps the first bad lines of the input.
  void keep_first(int64_t chunk, const std::vector<BadLine>& bad_lines) {
    for (const BadLine& bad : bad_lines) bad_lines_.emplace_back(chunk, bad);
    std::stable_sort(bad_lines_.begin(), bad_lines_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    if (bad_lines_.size() > DocumentCounts::kReportedBadLines) {
      bad_lines_.resize(DocumentCounts::kReportedBadLines);
    }
  }

  static constexpr int64_t kFirst = -1;  // in front of every chunk

  /// Ends the work; of several reasons that of the first chunk holds.
  void stop(Status reason, int64_t chunk) {
    stopped_ = true;
    turn_changed_.notify_all();
    if (!status_.ok() && status_chunk_ <= chunk) return;
    status_ = std::move(reason);
    status_chunk_ = chunk;
  }

  bool stopped() const {
    const std::lock_guard lock(mutex_);
    return stopped_ || is_enough();
  }

  bool is_enough() const { return last_part_ < std::numeric_limits<int64_t>::max(); }

  const ReadTextsOptions& options_;
  TextSource& source_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable all_ended_;
  size_t working_ = 0;  // threads
  bool stopped_ = false;
  Status status_;  // of what is no bad line
  int64_t status_chunk_ = 0;
  int64_t documents_left_;
  std::vector<PlacedLine> bad_lines_;  // the first, in order
  ChunkPlaces places_;
  ReadTextsSummary summary_;

  // In order.
  std::condition_variable turn_changed_;
  int64_t input_, lines_;                                    // of the last settled part's end
  int64_t settled_ = 0;                                      // parts
  int64_t written_ = 0;                                      // parts
  int64_t last_part_ = std::numeric_limits<int64_t>::max();  // that counts
};

}  // namespace

Result<ReadTextsSummary> read_texts(const ReadTextsOptions& options,
                                    std::span<TextVisitor* const> visitors,
                                    const ProgressCallback& progress) {
  MEG_RETURN_IF_ERROR(check_options(options, visitors));
  MEG_ASSIGN_OR_RETURN(TextSource source, TextSource::open(options.inputs, options.chunk_bytes,
                                                           options.input, options.json_keys));
  if (options.on_error == OnError::kFail) {
    MEG_RETURN_IF_ERROR(check_first_documents(source, options.input, options.json_keys));
  }
  // Which documents are the first ones depends on the order, so one thread reads them.
  if (options.max_documents) visitors = visitors.first(1);
  const ReadPosition& from = options.start_at;
  MEG_RETURN_IF_ERROR(source.start_at(static_cast<int>(from.input), from.offset));
  return Reading(options, source).run(visitors, progress);
}

}  // namespace meg::preprocess
