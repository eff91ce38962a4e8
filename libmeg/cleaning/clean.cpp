#include "libmeg/cleaning/clean.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "libmeg/cleaning/internal/check_options.h"
#include "libmeg/cleaning/internal/minhash_stages.h"
#include "libmeg/cleaning/internal/ngram_counter.h"
#include "libmeg/cleaning/internal/part_cleaner.h"
#include "libmeg/cleaning/internal/release.h"
#include "libmeg/cleaning/internal/shared_state.h"
#include "libmeg/cleaning/internal/step.h"
#include "libmeg/io/byte_stream.h"
#include "libmeg/io/file_descriptor.h"
#include "libmeg/preprocess/check_outputs.h"
#include "libmeg/preprocess/read_texts.h"

// Every thread takes a part of the input through all steps that look at one document alone. What
// depends on the documents before (duplicates, the limit) is decided where parts are settled, in
// order; then they are compressed, by all threads, and written, in order. Documents of which more
// must be known are held in a file and released at the end.

namespace meg::cleaning {
namespace {

/// Why an output has no documents.
std::string what_was_removed(const CleanSummary& summary) {
  std::string reasons;
  const auto add_reason = [&reasons](int64_t count, std::string_view what) {
    if (count > 0) reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", count, what);
  };
  for (const StepCounts& step : summary.steps) add_reason(step.removed, "removed by " + step.name);
  add_reason(summary.skipped_lines, "invalid lines skipped");
  return reasons.empty() ? "the input has none" : reasons;
}

Status check_can_be_read_twice(const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    std::error_code missing;
    const auto status = std::filesystem::status(input, missing);
    const bool is_stream = std::filesystem::exists(status) &&
                           !std::filesystem::is_regular_file(status) &&
                           !std::filesystem::is_directory(status);
    if (input != io::kStandardInput && !is_stream) continue;
    return make_error(StatusCode::kUnsupported,
                      "{}: `key_threshold`: expected files, which are read twice, found a pipe; 0 "
                      "reads them once",
                      input);
  }
  return {};
}

preprocess::ReadTextsOptions reading_of(const CleanOptions& options, bool in_order,
                                        const preprocess::ReadPosition& start_at = {}) {
  return {.inputs = options.inputs,
          .input = options.input,
          .max_documents = std::nullopt,
          .json_keys = options.json_keys,
          .on_error = options.on_error,
          .chunk_bytes = options.chunk_bytes,
          .in_order = in_order,
          .start_at = start_at};
}

/// The n-grams of the test sets that documents are compared with. Reads all documents.
Result<std::optional<TestNgrams>> read_ngrams(const CleanOptions& options,
                                              const std::vector<StepPlan>& plans,
                                              const ProgressCallback& progress) {
  if (!options.decontaminate) return std::optional<TestNgrams>();
  const int64_t threshold = options.decontaminate->key_threshold;
  if (threshold > 0) MEG_RETURN_IF_ERROR(check_can_be_read_twice(options.inputs));
  MEG_ASSIGN_OR_RETURN(TestNgrams ngrams, TestNgrams::read(*options.decontaminate));
  if (threshold > 0) {
    std::vector<std::unique_ptr<preprocess::TextVisitor>> counters;
    std::vector<preprocess::TextVisitor*> visitors;
    for (int i = 0; i < options.workers; ++i) {
      visitors.push_back(counters.emplace_back(make_ngram_counter(options, plans, ngrams)).get());
    }
    const auto read = preprocess::read_texts(reading_of(options, false), visitors, progress);
    MEG_RETURN_IF_ERROR(read.status());
    ngrams.remove_frequent(threshold);
  }
  return std::optional<TestNgrams>(std::move(ngrams));
}

Status open_outputs(const CleanOptions& options, SharedState& shared) {
  for (const std::string& path : output_paths(options)) {
    std::optional<OutputMark> resume_at;
    if (shared.journal) resume_at = shared.journal->checkpoint().outputs[shared.outputs.size()];
    // A journal of this output without splits is this run's own.
    const bool is_own = shared.journal && path == options.output;
    if (!is_own) MEG_RETURN_IF_ERROR(preprocess::RunJournal::make_way(path));
    MEG_ASSIGN_OR_RETURN(Output output, Output::create(options, path, resume_at));
    shared.summary.outputs.push_back({.path = output.path()});
    shared.outputs.push_back(std::move(output));
  }
  return {};
}

Status commit_outputs(const CleanOptions& options, SharedState& shared) {
  CleanSummary& summary = shared.summary;
  BlockPacker packer(options);
  for (size_t i = 0; i < shared.outputs.size(); ++i) {
    if (summary.outputs[i].documents > 0) continue;
    if (summary.kept > 0) {
      summary.warnings.push_back(fmt::format("no documents: {} is empty (all went to other splits)",
                                             summary.outputs[i].path));
    }
    // A compressed file without documents is one of its kind nevertheless.
    OutputBlock empty;
    empty.output = i;
    MEG_RETURN_IF_ERROR(packer.pack(empty));
    MEG_RETURN_IF_ERROR(shared.write(empty));
  }
  summary.output_bytes = shared.output_bytes;
  if (shared.exact_counts != nullptr && shared.exact_counts->without_key > 0) {
    summary.warnings.push_back(fmt::format(
        "`duplicates_by`: {} of {} documents have no key {}, and stay",
        shared.exact_counts->without_key, shared.exact_counts->documents, options.duplicates_by));
  }
  if (summary.kept == 0) {
    summary.warnings.push_back(
        fmt::format("no documents: {} is empty ({})", options.output, what_was_removed(summary)));
  }
  if (!shared.journal) return Output::commit_all(shared.outputs, shared.sources, {});
  // From here on a killed process is finished by finished_run().
  const auto save = [&]() -> Status {
    CleanCheckpoint end;
    end.summary = summary;
    MEG_RETURN_IF_ERROR(shared.write_checkpoint({}, end));
    return shared.journal->save_complete(end);
  };
  MEG_RETURN_IF_ERROR(Output::commit_all(shared.outputs, shared.sources, save));
  shared.journal->remove_files();
  return {};
}

/// The run that an earlier process brought to its end, or nearly.
Result<CleanSummary> finished_run(const CleanOptions& options, const CleanJournal& journal) {
  const CleanCheckpoint& end = journal.checkpoint();
  const std::vector<std::string> paths = output_paths(options);
  if (const Status status = Output::publish_all(options, paths, end.outputs); !status.ok()) {
    return make_error(status.code(),
                      "{}: {} says that the run is complete: remove it to start over",
                      status.message(), journal.path());
  }
  journal.remove_files();
  CleanSummary summary = end.summary;
  summary.was_finished = true;
  return summary;
}

/// Takes up where the journal's process was.
Status restore(SharedState& shared) {
  MEG_ASSIGN_OR_RETURN(shared.held_file, shared.journal->open_held());
  if (!shared.journal->has_checkpoint()) return {};
  const CleanCheckpoint& from = shared.journal->checkpoint();
  if (from.summary.steps.size() != shared.summary.steps.size()) return shared.journal->damaged();
  std::vector<OutputCounts> outputs = std::move(shared.summary.outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].documents = from.summary.outputs[i].documents;
    outputs[i].text_bytes = from.summary.outputs[i].text_bytes;
  }
  shared.summary = from.summary;
  shared.summary.outputs = std::move(outputs);
  shared.output_bytes = from.summary.output_bytes;
  shared.held = from.held;
  shared.held_bytes = from.held_bytes;
  shared.held_pieces = from.held_pieces;
  return shared.journal->replay(shared.exact ? &*shared.exact : nullptr,
                                shared.near ? &*shared.near : nullptr);
}

/// That of a run that is to be resumed; none of another one, which makes way for it.
Result<std::unique_ptr<CleanJournal>> open_journal(const CleanOptions& options) {
  if (options.resume && options.verify_jaccard) {
    return Status(StatusCode::kUnsupported,
                  "`resume`: cannot be combined with `verify_jaccard` yet, whose shingles are not "
                  "kept");
  }
  if (options.resume) return CleanJournal::open(options);
  if (!options.splits.empty()) {
    MEG_RETURN_IF_ERROR(preprocess::RunJournal::make_way(options.output));
  }
  return std::unique_ptr<CleanJournal>();
}

void add_step(std::string name, CleanSummary& summary) {
  summary.steps.push_back({.name = std::move(name), .reasons = {}, .samples = {}});
}

/// Takes the inputs through the steps; what is held waits in a file.
Status read_inputs(const CleanOptions& options, const std::vector<StepPlan>& plans,
                   TestNgrams* ngrams, SharedState& shared, const ProgressCallback& progress) {
  std::vector<std::unique_ptr<preprocess::TextVisitor>> cleaners;
  std::vector<preprocess::TextVisitor*> visitors;
  for (int i = 0; i < options.workers; ++i) {
    visitors.push_back(
        cleaners.emplace_back(make_part_cleaner(options, plans, ngrams, shared)).get());
  }
  preprocess::ReadPosition start_at;
  if (shared.journal) start_at = shared.journal->checkpoint().position;
  MEG_ASSIGN_OR_RETURN(
      const preprocess::ReadTextsSummary texts,
      preprocess::read_texts(reading_of(options, true, start_at), visitors, progress));
  CleanSummary& summary = shared.summary;
  shared.sources = texts.sources;
  summary.documents = texts.documents;
  summary.input_bytes = texts.input_bytes;
  summary.text_bytes = texts.text_bytes;
  summary.skipped_lines = texts.skipped_lines;
  summary.skipped_examples = texts.skipped_examples;
  summary.warnings = texts.warnings;
  if (!shared.journal) return {};
  MEG_ASSIGN_OR_RETURN(CleanCheckpoint read, shared.begin_checkpoint());
  const preprocess::ReadPosition end{
      .input = std::ssize(texts.sources), .offset = 0, .lines = 0, .summary = texts};
  MEG_RETURN_IF_ERROR(shared.write_checkpoint(end, read));
  return shared.save_checkpoint(read);
}

/// The first stage of a share.
Result<CleanSummary> write_signatures(const CleanOptions& options,
                                      const std::vector<StepPlan>& plans, TestNgrams* ngrams,
                                      const ProgressCallback& progress) {
  const ShardFiles paths(options.minhash_folder, options.input.shard);
  MEG_RETURN_IF_ERROR(preprocess::check_outputs(
      options.inputs, {paths.documents, paths.signatures, paths.shingles}));
  SharedState shared;
  for (const StepPlan& plan : plans) add_step(plan.name, shared.summary);
  if (ngrams != nullptr) add_step("decontaminate", shared.summary);
  MEG_ASSIGN_OR_RETURN(shared.held_file, io::AtomicFile::create_regular(paths.documents));
  MEG_ASSIGN_OR_RETURN(shared.signatures,
                       SignatureWriter::create(paths.signatures, options.kept_duplicate_key,
                                               options.verify_jaccard.has_value()));
  if (options.verify_jaccard) {
    MEG_ASSIGN_OR_RETURN(shared.shingles, ShingleWriter::create(paths.shingles));
  }
  MEG_RETURN_IF_ERROR(read_inputs(options, plans, ngrams, shared, progress));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile* const signatures, shared.signatures->finish(shared.held));
  // What was decided about other documents does not hold for these.
  std::error_code missing;
  std::filesystem::remove(paths.removed, missing);
  std::filesystem::remove(paths.shingles, missing);
  std::vector<io::AtomicFile*> files = {&shared.held_file, signatures};
  if (shared.shingles) {
    MEG_ASSIGN_OR_RETURN(io::AtomicFile* const shingles, shared.shingles->finish());
    files.insert(files.begin(), shingles);
  }
  MEG_RETURN_IF_ERROR(io::AtomicFile::commit_all(files));
  shared.summary.kept = shared.held;
  return std::move(shared.summary);
}

/// The last stage of a share.
Result<CleanSummary> filter_shard(const CleanOptions& options, const ProgressCallback& progress) {
  const ShardFiles paths(options.minhash_folder, options.input.shard);
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor removed,
                       io::FileDescriptor::open_regular(paths.removed));
  MEG_ASSIGN_OR_RETURN(const int64_t count, removed.size());
  // The file's own bytes are at hand before they are asked for.
  std::string marks(static_cast<size_t>(count), '\0');
  MEG_RETURN_IF_ERROR(removed.read_exactly_at(0, std::as_writable_bytes(std::span(marks))));
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor documents,
                       io::FileDescriptor::open_regular(paths.documents));
  SharedState shared;
  add_step("near_duplicates", shared.summary);
  shared.near_counts = &shared.summary.steps.back();
  shared.removed.emplace(marks.size());
  for (size_t i = 0; i < marks.size(); ++i) (*shared.removed)[i] = marks[i] != '\0';
  shared.held = count;
  MEG_ASSIGN_OR_RETURN(shared.held_bytes, documents.size());
  shared.read_held = [&documents](int64_t offset, std::span<std::byte> into) {
    return documents.read_at(offset, into);
  };
  MEG_RETURN_IF_ERROR(open_outputs(options, shared));
  MEG_RETURN_IF_ERROR(release_held(options, shared, progress));
  shared.summary.documents = count;
  MEG_RETURN_IF_ERROR(commit_outputs(options, shared));
  return std::move(shared.summary);
}

}  // namespace

DrawnNumbers drawn_numbers(std::string_view value, uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(value.data(), value.size(), seed);
  constexpr double kScale = 1.0 / 18446744073709551616.0;
  // Rounded down to 53 bits, so that 1 is not reached.
  const auto scaled = [](uint64_t bits) { return static_cast<double>(bits >> 11 << 11) * kScale; };
  return {.high = scaled(hash.high64), .low = scaled(hash.low64)};
}

Result<CleanSummary> clean(const CleanOptions& asked, const ProgressCallback& progress) {
  MEG_RETURN_IF_ERROR(check_options(asked));
  CleanOptions options = asked;
  if (options.dataset) {
    DatasetOutput& dataset = *options.dataset;
    MEG_ASSIGN_OR_RETURN(dataset.dtype, preprocess::dataset_dtype(dataset.dtype, dataset.format,
                                                                  *options.tokenizer));
  }
  if (options.minhash_stage == MinHashStage::kBuckets) return write_bucket_pairs(options, progress);
  if (options.minhash_stage == MinHashStage::kClusters) return write_removed(options, progress);
  if (options.minhash_stage == MinHashStage::kFilter) return filter_shard(options, progress);
  SharedState shared;
  if (options.minhash_stage == MinHashStage::kAll) {
    // Before anything is read: a run that has only to be published needs no input.
    MEG_ASSIGN_OR_RETURN(shared.journal, open_journal(options));
    if (shared.journal && shared.journal->is_complete()) {
      return finished_run(options, *shared.journal);
    }
  }
  MEG_ASSIGN_OR_RETURN(const std::vector<StepPlan> plans, plan_steps(options));
  MEG_ASSIGN_OR_RETURN(std::optional<TestNgrams> ngrams, read_ngrams(options, plans, progress));
  TestNgrams* const looked_for = ngrams ? &*ngrams : nullptr;
  if (options.minhash_stage == MinHashStage::kSignatures) {
    return write_signatures(options, plans, looked_for, progress);
  }
  std::vector<StepCounts>& steps = shared.summary.steps;
  for (const StepPlan& plan : plans) add_step(plan.name, shared.summary);
  if (options.decontaminate) add_step("decontaminate", shared.summary);
  const size_t own_steps = steps.size();  // that need no other document
  const auto memory = static_cast<size_t>(options.memory / 2);
  if (options.exact_duplicates) {
    add_step("exact_duplicates", shared.summary);
    shared.exact.emplace(options.output, memory);
  }
  if (options.near_duplicates) {
    add_step("near_duplicates", shared.summary);
    shared.near.emplace(options.output, memory, options.kept_duplicate, options.verify_jaccard);
  }
  shared.read_held = [&shared](int64_t offset, std::span<std::byte> into) {
    return shared.held_file.read_at(offset, into);
  };
  MEG_RETURN_IF_ERROR(open_outputs(options, shared));
  if (shared.journal) MEG_RETURN_IF_ERROR(restore(shared));
  if (shared.exact) shared.exact_counts = &steps[own_steps];
  if (shared.near) shared.near_counts = &steps.back();
  MEG_RETURN_IF_ERROR(read_inputs(options, plans, looked_for, shared, progress));
  if (shared.held > 0) MEG_RETURN_IF_ERROR(release_held(options, shared, progress));
  MEG_RETURN_IF_ERROR(commit_outputs(options, shared));
  return std::move(shared.summary);
}

}  // namespace meg::cleaning
