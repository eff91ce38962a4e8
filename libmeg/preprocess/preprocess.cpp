#include "libmeg/preprocess/preprocess.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "libmeg/base/condition_variable.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/preprocess/check_outputs.h"
#include "libmeg/preprocess/internal/check_first_documents.h"
#include "libmeg/preprocess/internal/check_input.h"
#include "libmeg/preprocess/internal/chunk_tokenizer.h"
#include "libmeg/preprocess/internal/document_sink.h"
#include "libmeg/preprocess/internal/ordered_writer.h"
#include "libmeg/preprocess/internal/resume_journal.h"
#include "libmeg/preprocess/internal/run_settings.h"
#include "libmeg/preprocess/sentences/internal/sentence_splitter.h"
#include "libmeg/preprocess/sources/internal/text_source.h"
#include "libmeg/text/line_ends.h"

// preprocess_data: threads take chunks of lines from a TextSource, tokenize them (ChunkTokenizer)
// and hand them to an OrderedWriter, which brings them into order and into the datasets
// (DocumentSink). The calling thread only reports progress.
//
// Memory is bounded by 2 * workers + 2 results of about chunk_bytes each, whatever the input. The
// outputs have the same bytes for any number of workers.

namespace meg::preprocess {
namespace {

/// Lines longer than this are tokenized one at a time, so that only one at a time needs a multiple
/// of its length.
constexpr size_t kGiantLine = size_t{4} << 20;

/// From this much text without a single merge on, a vocabulary that does not fit its merges is the
/// likeliest reason.
constexpr int64_t kEnoughTextToWarn = 1'000'000;

std::vector<std::string> output_files(const PreprocessOptions& options) {
  std::vector<std::string> files;
  for (const std::string& dataset : output_datasets(options)) {
    for (const char* const ending : {".bin", ".idx"}) files.push_back(dataset + ending);
  }
  return files;
}

Status invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

/// What concerns the tokens.
Status check_tokenizing(const PreprocessOptions& options, const tokenizer::Tokenizer& tokenizer) {
  MEG_RETURN_IF_ERROR(check_input(options.inputs, options.json_keys, options.max_documents));
  if (options.workers < 1 || options.partitions < 1 || options.chunk_bytes < 1) {
    return invalid("workers, partitions and chunk_bytes: expected at least 1");
  }
  if (options.min_tokens < 0) {
    return invalid(fmt::format("`min_tokens`: expected at least 0, found {}", options.min_tokens));
  }
  if (options.append_eod && !tokenizer.eod()) {
    return invalid("`append_eod`: the vocabulary has no end-of-document token");
  }
  return Status();
}

Status check_options(const PreprocessOptions& options, const tokenizer::Tokenizer& tokenizer) {
  MEG_RETURN_IF_ERROR(check_tokenizing(options, tokenizer));
  MEG_RETURN_IF_ERROR(dataset::check_is_path(options.output_prefix));
  MEG_RETURN_IF_ERROR(check_outputs(options.inputs, output_files(options)));
  // The limit counts documents of the input, of which it is not known yet which are empty.
  if (options.max_documents && (options.skip_empty_documents || options.partitions > 1)) {
    return invalid(
        "`max_documents`: cannot be combined with `partitions`, or with a revision that drops "
        "empty documents");
  }
  if (options.input.shard.count > 1 && (options.max_documents || options.partitions > 1)) {
    return invalid("`shard`: cannot be combined with `partitions` or `max_documents`");
  }
  if (options.provenance && (options.partitions > 1 || options.skip_empty_documents)) {
    return invalid(
        "`provenance`: cannot be combined with `partitions`, or with a revision that drops empty "
        "documents");
  }
  return Status();
}

Status interrupted() { return Status(StatusCode::kCancelled, "interrupted"); }

// Reads all inputs once more, as Megatron's --keep-sequential-samples does, because a block's size
// is the number of documents over that of partitions.
/// Lines that hold something, of all inputs. progress: stays at the begin.
Result<int64_t> count_documents(const PreprocessOptions& options,
                                const ProgressCallback& progress) {
  MEG_ASSIGN_OR_RETURN(TextSource source, TextSource::open(options.inputs, options.chunk_bytes,
                                                           options.input, options.json_keys));
  if (source.has_pipe()) {
    return Status(StatusCode::kUnsupported,
                  "`keep_sequential_samples`: expected files, found a pipe, whose lines cannot be "
                  "counted in advance");
  }
  const Progress begin{.total_bytes = source.total_bytes()};
  int64_t documents = 0;
  TextChunk chunk;
  while (true) {
    if (progress && !progress(begin)) return interrupted();
    MEG_ASSIGN_OR_RETURN(const bool more, source.next(chunk));
    MEG_RETURN_IF_ERROR(chunk.error);
    if (!more) return documents;
    documents += std::ssize(chunk.records);
    std::string_view lines = chunk.has_lines() ? chunk.lines : std::string_view();
    std::string_view line;
    while (text::take_line(lines, line)) documents += text::is_blank_line(line) ? 0 : 1;
  }
}

/// The threads of one preprocess() and what they share.
class Workers {
 public:
  /// splitter: null where documents are not split.
  Workers(const PreprocessOptions& options, const tokenizer::Tokenizer& tokenizer,
          const SentenceSplitter* splitter, DType dtype, TextSource& source, OrderedWriter& writer)
      : options_(options),
        tokenizer_(tokenizer),
        splitter_(splitter),
        dtype_(dtype),
        source_(source),
        writer_(writer) {}

  /// Runs until the input's end, an error, or progress returns false.
  Status run(const ProgressCallback& progress) {
    Status started = start();
    if (!started.ok()) writer_.stop(std::move(started));
    watch(progress);
    for (std::thread& thread : threads_) thread.join();
    return writer_.status();
  }

 private:
  /// Fewer threads than asked for are enough; none is an error.
  Status start() {
    threads_.reserve(static_cast<size_t>(options_.workers));
    for (int i = 0; i < options_.workers; ++i) {
      // Pushed before it is counted: `running_` counts threads that exist. A thread that ends at
      // once waits for the mutex.
      try {
        threads_.emplace_back([this] { work(); });
        const std::lock_guard lock(mutex_);
        ++running_;
      } catch (const std::system_error& error) {
        if (threads_.empty()) return errno_error(error.code().value(), "cannot start a thread");
        break;
      }
    }
    return Status();
  }

  void watch(const ProgressCallback& progress) {
    std::unique_lock lock(mutex_);
    while (!all_ended_.wait_for(lock, kProgressInterval, [this] { return running_ == 0; })) {
      lock.unlock();
      report(progress);
      // A thread may be waiting for a pipe, where stopping alone does not reach it.
      if (writer_.stopped()) source_.interrupt();
      lock.lock();
    }
    lock.unlock();
    if (writer_.status().ok()) report(progress);
  }

  // Call it without the lock, because the callback may take long.
  void report(const ProgressCallback& progress) {
    if (!progress) return;
    Progress now = writer_.progress();
    now.total_bytes = source_.total_bytes();
    if (progress(now)) return;
    writer_.stop(interrupted());
    source_.interrupt();
  }

  void work() {
    try {
      tokenize_chunks();
    } catch (const std::bad_alloc&) {
      writer_.stop(Status(StatusCode::kResourceExhausted, "out of memory while tokenizing"));
    }
    const std::lock_guard lock(mutex_);
    --running_;
    all_ended_.notify_one();
  }

  void tokenize_chunks() {
    ChunkTokenizer::Rules rules;
    if (options_.append_eod) rules.appended_eod = tokenizer_.eod();
    rules.skip_empty_documents = options_.skip_empty_documents;
    rules.min_tokens = options_.min_tokens;
    rules.splitter = splitter_;
    rules.record_places = options_.provenance;
    rules.stop_at_bad_line = options_.on_error == OnError::kFail;
    ChunkTokenizer tokenizer(tokenizer_, dtype_, options_.json_keys, rules);
    TextChunk chunk;
    while (std::unique_ptr<TokenizedChunk> result = writer_.take_result()) {
      const Result<bool> more = source_.next(chunk);
      if (more.has_value() && !*more) return;
      if (!more.has_value()) {  // It counts once all before it is done.
        result->number = chunk.number;
        result->source_error = more.error();
        return writer_.commit(std::move(result));
      }
      std::unique_lock giant(giant_line_, std::defer_lock);
      // A giant line needs several times its length while it is tokenized. One at a time needs it,
      // not as many as there are workers.
      if (chunk.lines.size() > std::max(kGiantLine, options_.chunk_bytes)) giant.lock();
      tokenizer.run(chunk, *result);
      // The buffer has the size of the giant line: it is not kept for chunks that follow.
      if (giant.owns_lock()) chunk = TextChunk();
      writer_.commit(std::move(result));
    }
  }

  const PreprocessOptions& options_;
  const tokenizer::Tokenizer& tokenizer_;
  const SentenceSplitter* const splitter_;
  const DType dtype_;
  TextSource& source_;
  OrderedWriter& writer_;

  std::vector<std::thread> threads_;
  std::mutex giant_line_;
  std::mutex mutex_;  // guards running_
  std::condition_variable all_ended_;
  int running_ = 0;
};

/// Why a dataset has no documents: what was read and not kept.
std::string what_was_left_out(const PreprocessSummary& summary, const PreprocessOptions& options) {
  std::string reasons;
  const auto add = [&reasons](int64_t count, std::string_view what) {
    if (count > 0) reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", count, what);
  };
  add(summary.documents, "without tokens");
  add(summary.short_documents, fmt::format("with fewer than `min_tokens` {}", options.min_tokens));
  add(summary.skipped_lines, "invalid lines skipped");
  add(summary.blank_lines, "blank lines");
  return reasons.empty() ? "the input has none" : reasons;
}

/// A dataset without tokens is valid, and seldom what was meant.
Status warn_of_empty_datasets(const PreprocessOptions& options, PreprocessSummary& summary) {
  for (const std::string& prefix : summary.datasets) {
    MEG_ASSIGN_OR_RETURN(const auto written, dataset::IndexedDataset::open(prefix));
    if (written.sequence_count() > 0) continue;
    summary.warnings.push_back(written.document_count() == 0
                                   ? fmt::format("no documents: {} is empty ({})", prefix,
                                                 what_was_left_out(summary, options))
                                   : fmt::format("no tokens: the {} documents of {} are empty",
                                                 written.document_count(), prefix));
  }
  return Status();
}

Result<std::optional<SentenceSplitter>> open_splitter(const PreprocessOptions& options) {
  std::optional<SentenceSplitter> splitter;
  if (!options.sentences) return splitter;
  MEG_ASSIGN_OR_RETURN(splitter, SentenceSplitter::open(*options.sentences));
  return splitter;
}

Result<TextSource> open_source(const PreprocessOptions& options) {
  MEG_ASSIGN_OR_RETURN(TextSource source, TextSource::open(options.inputs, options.chunk_bytes,
                                                           options.input, options.json_keys));
  if (options.on_error == OnError::kFail) {
    MEG_RETURN_IF_ERROR(check_first_documents(source, options.input, options.json_keys));
  }
  return source;
}

OrderedWriter new_writer(ChunkSink& sink, const PreprocessOptions& options,
                         const TextSource& source, DType dtype) {
  // Twice the workers, so that one who is ahead need not wait for a slow chunk, and two more for
  // those that are written.
  const auto results = static_cast<size_t>(options.workers) * 2 + 2;
  return OrderedWriter(sink, options, source, dtype, results,
                       static_cast<int64_t>(options.chunk_bytes) * 2);
}

/// Hands documents to a visitor.
class VisitingSink : public ChunkSink {
 public:
  explicit VisitingSink(const DocumentVisitor& visitor) : visitor_(visitor) {}

  Status reserve(TokenizedChunk& chunk) override {
    KeyTokens& key = chunk.keys.front();
    const auto* const first = reinterpret_cast<const int32_t*>(key.tokens.bytes().data());
    std::span<const int32_t> tokens(first, static_cast<size_t>(key.tokens.size()));
    std::span<const int32_t> lengths = key.sequence_lengths;
    for (size_t i = 0; i < key.document_sequence_counts.size(); ++i) {
      const auto own = lengths.first(static_cast<size_t>(key.document_sequence_counts[i]));
      const auto count = std::accumulate(own.begin(), own.end(), size_t{0});
      MEG_RETURN_IF_ERROR(visitor_({tokens.first(count), own, chunk.places[i]}));
      tokens = tokens.subspan(count);
      lengths = lengths.subspan(own.size());
    }
    key.pieces.push_back({.token_count = key.tokens.size()});
    return {};
  }

 private:
  const DocumentVisitor& visitor_;
};

void add_warnings(PreprocessSummary& summary) {
  if (summary.text_bytes >= kEnoughTextToWarn && summary.text_tokens == summary.text_bytes) {
    summary.warnings.push_back(
        "1.00 tokens per byte: no merge was used; do the vocabulary and merges belong together?");
  }
}

/// The run that an earlier process brought to its end, or nearly.
Result<PreprocessSummary> finished_run(const PreprocessOptions& options, DType dtype,
                                       const ResumeJournal& journal) {
  const Checkpoint& end = journal.checkpoint();
  dataset::ShardRun run;
  if (options.input.shard.count > 1) {
    MEG_ASSIGN_OR_RETURN(
        const TextSource source,
        TextSource::open(options.inputs, options.chunk_bytes, options.input, options.json_keys));
    run = shard_run(options, dtype, source);
  }
  if (const Status status = DocumentSink::publish(options, dtype, run, end.marks); !status.ok()) {
    return Status(status.code(),
                  fmt::format("{}: {} says that the run is complete: remove it to start over",
                              status.message(), journal.path()));
  }
  PreprocessSummary summary = end.summary;
  summary.datasets = output_datasets(options);
  summary.was_finished = true;
  MEG_RETURN_IF_ERROR(warn_of_empty_datasets(options, summary));
  return summary;
}

}  // namespace

Result<DType> dataset_dtype(std::optional<DType> asked, dataset::IndexFormat format,
                            const tokenizer::Tokenizer& tokenizer) {
  const bool is_tntidx = format == dataset::IndexFormat::kTntidx;
  const DType dtype = asked       ? *asked
                      : is_tntidx ? DType::kInt32
                                  : tokenizer::optimal_dtype(tokenizer.vocab_size());
  if (is_tntidx && dtype != DType::kInt32) {
    return invalid(fmt::format(
        "`dtype` {}: expected int32, the type of datasets of `dataset_impl` lazy and cached",
        dtype_name(dtype)));
  }
  if (dtype != DType::kUint16 && dtype != DType::kInt32) {
    return invalid(fmt::format("`dtype`: expected uint16 or int32, found {}", dtype_name(dtype)));
  }
  const int32_t largest = std::max(tokenizer.max_id(), tokenizer.eod().value_or(0));
  if (dtype == DType::kUint16 && largest > 65535) {
    return invalid(fmt::format("`dtype` uint16: expected ids up to 65535, found {}", largest));
  }
  return dtype;
}

Result<PreprocessSummary> preprocess(const PreprocessOptions& options,
                                     const tokenizer::Tokenizer& tokenizer,
                                     const ProgressCallback& progress) {
  MEG_RETURN_IF_ERROR(check_options(options, tokenizer));
  MEG_ASSIGN_OR_RETURN(const DType dtype, dataset_dtype(options.dtype, options.format, tokenizer));
  MEG_ASSIGN_OR_RETURN(const std::optional<SentenceSplitter> splitter, open_splitter(options));
  // Do this before the input is opened: a run that has only to be published does not read it.
  std::optional<ResumeJournal> journal;
  if (options.resume) {
    MEG_ASSIGN_OR_RETURN(journal, ResumeJournal::open(options, dtype));
    if (journal->checkpoint().is_complete) return finished_run(options, dtype, *journal);
  } else {
    MEG_RETURN_IF_ERROR(ResumeJournal::make_way(options));
  }
  MEG_ASSIGN_OR_RETURN(TextSource source, open_source(options));
  std::optional<DocumentSink::Marks> resume_at;
  if (journal.has_value()) {
    const Checkpoint& from = journal->checkpoint();
    MEG_RETURN_IF_ERROR(source.start_at(static_cast<int>(from.input), from.offset));
    resume_at = from.marks;
  }
  int64_t total_documents = 0;
  if (options.partitions > 1 && options.dealing == Dealing::kBlocks) {
    MEG_ASSIGN_OR_RETURN(total_documents, count_documents(options, progress));
  }
  MEG_ASSIGN_OR_RETURN(DocumentSink sink,
                       DocumentSink::create(options, dtype, total_documents,
                                            shard_run(options, dtype, source), resume_at));
  OrderedWriter writer = new_writer(sink, options, source, dtype);
  if (journal.has_value()) writer.resume(*journal);
  MEG_RETURN_IF_ERROR(Workers(options, tokenizer, splitter.has_value() ? &*splitter : nullptr,
                              dtype, source, writer)
                          .run(progress));
  Progress whole = writer.progress();
  whole.total_bytes = source.total_bytes();
  PreprocessSummary summary = writer.summary();
  summary.datasets = output_datasets(options);
  summary.warnings = source.notes();
  const auto keep_going = [&] { return !progress || progress(whole); };
  // Called when everything is on the disk and nothing is published: from here on a killed process
  // is finished by finished_run().
  const auto save = [&]() -> Status {
    MEG_ASSIGN_OR_RETURN(DocumentSink::Marks marks, sink.marks());
    return journal->save({.is_complete = true, .summary = summary, .marks = std::move(marks)});
  };
  MEG_RETURN_IF_ERROR(sink.finish(source.names(), keep_going,
                                  journal.has_value() ? save : std::function<Status()>()));
  add_warnings(summary);
  MEG_RETURN_IF_ERROR(warn_of_empty_datasets(options, summary));
  return summary;
}

Result<VisitedDocuments> visit_documents(const PreprocessOptions& asked,
                                         const tokenizer::Tokenizer& tokenizer,
                                         const DocumentVisitor& visitor,
                                         const ProgressCallback& progress) {
  PreprocessOptions options = asked;
  options.provenance = true;  // which has the places recorded
  MEG_RETURN_IF_ERROR(check_tokenizing(options, tokenizer));
  if (options.json_keys.size() != 1) {
    return invalid(fmt::format("`json_keys`: expected one, found {}", options.json_keys.size()));
  }
  if (options.skip_empty_documents || options.partitions > 1 || options.resume) {
    return invalid(
        "a revision that drops empty documents, `partitions` and `resume`: cannot be combined with "
        "places of documents");
  }
  MEG_ASSIGN_OR_RETURN(const std::optional<SentenceSplitter> splitter, open_splitter(options));
  MEG_ASSIGN_OR_RETURN(TextSource source, open_source(options));
  VisitingSink sink(visitor);
  OrderedWriter writer = new_writer(sink, options, source, DType::kInt32);
  MEG_RETURN_IF_ERROR(Workers(options, tokenizer, splitter.has_value() ? &*splitter : nullptr,
                              DType::kInt32, source, writer)
                          .run(progress));
  VisitedDocuments visited{writer.summary(), source.names()};
  visited.summary.warnings = source.notes();
  return visited;
}

}  // namespace meg::preprocess
