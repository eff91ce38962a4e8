#include "libmeg/cleaning/internal/clean_journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "libmeg/base/version.h"
#include "libmeg/cleaning/internal/shared_state.h"

// The checkpoint is one JSON object in the journal. A part's documents are decided in settle() and
// written in write(), between which later parts may be settled: the numbers of a checkpoint are
// taken where each is the part's own.

namespace meg::cleaning {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RemovedSample, reason, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepCounts, name, documents, bytes, removed, changed,
                                   removed_bytes, removed_pieces, without_key, reasons, samples)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DuplicateCluster, documents, kept, removed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OutputCounts, path, documents, text_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CleanSummary, documents, input_bytes, text_bytes, kept,
                                   kept_text_bytes, output_bytes, skipped_lines, lengths_read,
                                   lengths_kept, languages, steps, outputs, clusters,
                                   largest_clusters, candidate_pairs, joined_pairs,
                                   skipped_examples, warnings)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OutputMark, bytes, sequences, documents, tokens)

/// A ReadPosition, in this namespace.
struct SavedPosition {
  int64_t input = 0, offset = 0, lines = 0;
  int64_t documents = 0, input_bytes = 0, text_bytes = 0, skipped_lines = 0;
  std::vector<std::string> skipped_examples;
};

/// A CleanCheckpoint.
struct SavedCheckpoint {
  SavedPosition position;
  CleanSummary summary;
  int64_t held = 0, held_bytes = 0, held_pieces = 0, digests = 0, signatures = 0;
  std::vector<OutputMark> outputs;
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SavedPosition, input, offset, lines, documents, input_bytes,
                                   text_bytes, skipped_lines, skipped_examples)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SavedCheckpoint, position, summary, held, held_bytes,
                                   held_pieces, digests, signatures, outputs)

namespace {

constexpr const char* kCheckpoint = "checkpoint";
constexpr std::string_view kFolder = ".resume/";  // after the output's name
constexpr const char* kHeld = "held";
constexpr const char* kDigests = "digests";
constexpr const char* kSignatures = "signatures";

/// Everything that decides the bytes and is not in the caller's identity of the run.
Result<preprocess::JournalLines> describe(const CleanOptions& options) {
  preprocess::JournalLines run = {
      {"program", "clean_dataset"},
      // Another version may decide otherwise.
      {"libmeg", std::string(version())},
      // Parts end where they ended before only with the same size.
      {"chunk_bytes", fmt::format("{}", options.chunk_bytes)},
      {"memory", fmt::format("{}", options.memory)},
      {"samples", fmt::format("{}", options.samples)},
  };
  for (const auto& [name, value] : options.resume_identity) {
    run.emplace_back(preprocess::one_line(name), preprocess::one_line(value));
  }
  MEG_RETURN_IF_ERROR(preprocess::add_inputs(options.inputs, run));
  return run;
}

bool is_within_bounds(const CleanCheckpoint& at, size_t outputs) {
  constexpr int64_t kMost = int64_t{1} << 56;
  std::vector<int64_t> counts = {at.position.input,
                                 at.position.offset,
                                 at.position.lines,
                                 at.position.summary.documents,
                                 at.position.summary.input_bytes,
                                 at.position.summary.text_bytes,
                                 at.position.summary.skipped_lines,
                                 at.summary.kept,
                                 at.held,
                                 at.held_bytes,
                                 at.held_pieces,
                                 at.digests,
                                 at.signatures};
  for (const OutputMark& mark : at.outputs) {
    counts.insert(counts.end(), {mark.bytes, mark.sequences, mark.documents, mark.tokens});
  }
  for (const int64_t count : counts) {
    if (count < 0 || count > kMost) return false;
  }
  // Memory is needed for each held document and paragraph, so that there must be as many.
  return at.outputs.size() == outputs && at.summary.outputs.size() == outputs &&
         at.held <= at.held_bytes / static_cast<int64_t>(sizeof(HeldHeader)) &&
         at.held_pieces <= at.held_bytes;
}

preprocess::JournalLines lines_of(const CleanCheckpoint& checkpoint) {
  const preprocess::ReadPosition& place = checkpoint.position;
  const preprocess::ReadTextsSummary& read = place.summary;
  const SavedCheckpoint saved{.position = {.input = place.input,
                                           .offset = place.offset,
                                           .lines = place.lines,
                                           .documents = read.documents,
                                           .input_bytes = read.input_bytes,
                                           .text_bytes = read.text_bytes,
                                           .skipped_lines = read.skipped_lines,
                                           .skipped_examples = read.skipped_examples},
                              .summary = checkpoint.summary,
                              .held = checkpoint.held,
                              .held_bytes = checkpoint.held_bytes,
                              .held_pieces = checkpoint.held_pieces,
                              .digests = checkpoint.digests,
                              .signatures = checkpoint.signatures,
                              .outputs = checkpoint.outputs};
  // Paths in messages may be of any bytes.
  return {{kCheckpoint,
           nlohmann::json(saved).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)}};
}

CleanCheckpoint checkpoint_of(const SavedCheckpoint& saved) {
  const SavedPosition& place = saved.position;
  CleanCheckpoint checkpoint;
  checkpoint.position.input = place.input;
  checkpoint.position.offset = place.offset;
  checkpoint.position.lines = place.lines;
  preprocess::ReadTextsSummary& read = checkpoint.position.summary;
  read.documents = place.documents;
  read.input_bytes = place.input_bytes;
  read.text_bytes = place.text_bytes;
  read.skipped_lines = place.skipped_lines;
  read.skipped_examples = place.skipped_examples;
  checkpoint.summary = saved.summary;
  checkpoint.held = saved.held;
  checkpoint.held_bytes = saved.held_bytes;
  checkpoint.held_pieces = saved.held_pieces;
  checkpoint.digests = saved.digests;
  checkpoint.signatures = saved.signatures;
  checkpoint.outputs = saved.outputs;
  return checkpoint;
}

}  // namespace

Status CleanJournal::take_checkpoint(size_t outputs) {
  const auto& state = *journal_.state();
  if (state.size() != 1 || state.front().first != kCheckpoint) return journal_.damaged();
  const auto object = nlohmann::json::parse(state.front().second, nullptr, false);
  if (object.is_discarded()) return journal_.damaged();
  try {
    checkpoint_ = checkpoint_of(object.get<SavedCheckpoint>());
  } catch (const nlohmann::json::exception&) {
    return journal_.damaged();
  }
  return is_within_bounds(checkpoint_, outputs) ? Status() : journal_.damaged();
}

Result<std::unique_ptr<CleanJournal>> CleanJournal::open(const CleanOptions& options) {
  MEG_ASSIGN_OR_RETURN(preprocess::JournalLines run, describe(options));
  MEG_ASSIGN_OR_RETURN(
      preprocess::RunJournal opened,
      preprocess::RunJournal::open(options.output, std::move(run), options.checkpoint_interval));
  std::unique_ptr<CleanJournal> journal(
      new CleanJournal(std::move(opened), options.output + std::string(kFolder)));
  const size_t outputs = std::max<size_t>(options.splits.size(), 1);
  journal->checkpoint_.outputs.resize(outputs);
  if (journal->journal_.state()) MEG_RETURN_IF_ERROR(journal->take_checkpoint(outputs));
  if (journal->is_complete()) return journal;
  const CleanCheckpoint& at = journal->checkpoint_;
  if (options.exact_duplicates) {
    MEG_ASSIGN_OR_RETURN(journal->digests_,
                         RecordLog<DigestRecord>::open(journal->folder_ + kDigests, at.digests));
  }
  if (options.near_duplicates) {
    MEG_ASSIGN_OR_RETURN(journal->signatures_, RecordLog<SignatureRecord>::open(
                                                   journal->folder_ + kSignatures, at.signatures));
  }
  return journal;
}

Result<io::AtomicFile> CleanJournal::open_held() const {
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::open_kept(folder_ + kHeld, ""));
  MEG_RETURN_IF_ERROR(file.truncate(checkpoint_.held_bytes));
  return file;
}

Status CleanJournal::replay(ExactDuplicates* exact, NearDuplicates* near) {
  const auto not_held = [](std::string_view log) {
    return make_error(StatusCode::kCorruption, "{}: expected documents that are held", log);
  };
  if (exact != nullptr) {
    const int64_t held = std::max(checkpoint_.held, checkpoint_.held_pieces);
    MEG_RETURN_IF_ERROR(digests_->replay([&](const DigestRecord& record) -> Status {
      MEG_ASSIGN_OR_RETURN(const auto answer, exact->add(record.number, record.digest));
      const bool is_held = record.number >= 0 && record.number < held;
      if (is_held || answer != ExactDuplicates::Answer::kUndecided) return {};
      return not_held(digests_->file().path());
    }));
  }
  if (near == nullptr) return {};
  return signatures_->replay([&](const SignatureRecord& record) -> Status {
    const int64_t document = record.document.document;
    if (document < 0 || document >= checkpoint_.held) {
      return not_held(signatures_->file().path());
    }
    return near->add(record.document, record.signature, {});
  });
}

Result<CleanCheckpoint> CleanJournal::begin_checkpoint() {
  is_saving_ = true;
  CleanCheckpoint checkpoint;
  if (digests_) {
    MEG_RETURN_IF_ERROR(digests_->flush());
    checkpoint.digests = digests_->count();
  }
  if (signatures_) {
    MEG_RETURN_IF_ERROR(signatures_->flush());
    checkpoint.signatures = signatures_->count();
  }
  return checkpoint;
}

Status CleanJournal::sync() {
  std::vector<io::AtomicFile*> files;
  if (digests_) files.push_back(&digests_->file());
  if (signatures_) files.push_back(&signatures_->file());
  return files.empty() ? Status() : io::AtomicFile::flush_all(files);
}

Status CleanJournal::save(const CleanCheckpoint& checkpoint) {
  MEG_RETURN_IF_ERROR(journal_.save(false, lines_of(checkpoint)));
  is_saving_ = false;  // Last: who sees it asks for the time of this save().
  return {};
}

Status CleanJournal::save_complete(const CleanCheckpoint& checkpoint) {
  return journal_.save(true, lines_of(checkpoint));
}

void CleanJournal::remove_files() const {
  namespace fs = std::filesystem;
  std::error_code missing;
  for (const char* const name : {kHeld, kDigests, kSignatures}) fs::remove(folder_ + name, missing);
  // Temporary files of a process that was killed at its very end have no next one to remove them.
  const fs::path output = folder_.substr(0, folder_.size() - kFolder.size());
  const std::string begin = output.filename().string() + ".";
  const fs::path around = output.has_parent_path() ? output.parent_path() : ".";
  for (const auto& entry : fs::directory_iterator(around, missing)) {
    const std::string name = entry.path().filename().string();
    const size_t end = name.find(".partial-");
    if (!name.starts_with(begin) || end == name.npos) continue;
    io::AtomicFile::remove_stale_partials((around / name.substr(0, end)).string());
  }
}

}  // namespace meg::cleaning
