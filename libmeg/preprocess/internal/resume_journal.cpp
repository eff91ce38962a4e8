#include "libmeg/preprocess/internal/resume_journal.h"

#include <charconv>
#include <utility>

#include "libmeg/preprocess/internal/document_sink.h"
#include "libmeg/preprocess/internal/run_settings.h"

namespace meg::preprocess {
namespace {

/// Sizes and counts beyond this are damage, and sums of them do not overflow.
constexpr int64_t kMaxCount = int64_t{1} << 56;

/// The checkpoint's numbers, by name.
std::vector<std::pair<std::string, int64_t*>> numbers(Checkpoint& at) {
  PreprocessSummary& summary = at.summary;
  std::vector<std::pair<std::string, int64_t*>> all = {
      {"input", &at.input},
      {"offset", &at.offset},
      {"lines", &at.lines},
      {"documents", &summary.documents},
      {"tokens", &summary.tokens},
      {"input_bytes", &summary.input_bytes},
      {"text_bytes", &summary.text_bytes},
      {"text_tokens", &summary.text_tokens},
      {"blank_lines", &summary.blank_lines},
      {"skipped_lines", &summary.skipped_lines},
      {"short_documents", &summary.short_documents},
  };
  for (size_t key = 0; key < at.marks.size(); ++key) {
    dataset::IndexedDatasetBuilder::Mark& mark = at.marks[key];
    all.emplace_back(fmt::format("key {} sequences", key), &mark.sequences);
    all.emplace_back(fmt::format("key {} documents", key), &mark.documents);
    all.emplace_back(fmt::format("key {} tokens", key), &mark.items);
  }
  return all;
}

/// Takes the checkpoint's numbers; false where they are not as save() writes them.
bool take_checkpoint(const JournalLines& lines, Checkpoint& at) {
  auto line = lines.begin();
  for (const auto& [name, number] : numbers(at)) {
    if (line == lines.end() || line->first != name) return false;
    const std::string& value = line->second;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), *number);
    if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size()) return false;
    // Check before they are added to or read at.
    if (*number < 0 || *number > kMaxCount) return false;
    ++line;
  }
  return line == lines.end();
}

/// Everything that decides the bytes. What decides only the speed may change.
Result<JournalLines> describe(const PreprocessOptions& options, DType dtype) {
  JournalLines run = run_settings(options, dtype);
  run.emplace_back("max_documents", fmt::format("{}", options.max_documents.value_or(0)));
  // Chunks end where they ended before only with the same size.
  run.emplace_back("chunk_bytes", fmt::format("{}", options.chunk_bytes));
  run.emplace_back("shard",
                   fmt::format("{}/{}", options.input.shard.index, options.input.shard.count));
  for (const auto& [name, value] : options.resume_identity) {
    run.emplace_back(one_line(name), one_line(value));
  }
  MEG_RETURN_IF_ERROR(add_inputs(options.inputs, run));
  return run;
}

}  // namespace

Result<ResumeJournal> ResumeJournal::open(const PreprocessOptions& options, DType dtype) {
  if (options.partitions > 1) {
    return Status(StatusCode::kUnsupported, "`resume`: cannot be combined with `partitions`");
  }
  MEG_ASSIGN_OR_RETURN(JournalLines run, describe(options, dtype));
  MEG_ASSIGN_OR_RETURN(RunJournal opened, RunJournal::open(sharded_prefix(options), std::move(run),
                                                           options.checkpoint_interval));
  ResumeJournal journal(std::move(opened));
  Checkpoint& at = journal.checkpoint_;
  at.marks.resize(options.json_keys.size());
  const RunJournal& lines = journal.journal_;
  if (!lines.state()) return journal;
  at.is_complete = lines.is_complete();
  if (!take_checkpoint(*lines.state(), at)) return lines.damaged();
  return journal;
}

Status ResumeJournal::make_way(const PreprocessOptions& options) {
  return RunJournal::make_way(sharded_prefix(options));
}

Status ResumeJournal::save(const Checkpoint& checkpoint) {
  JournalLines state;
  Checkpoint saved = checkpoint;
  for (const auto& [name, number] : numbers(saved)) {
    state.emplace_back(name, fmt::format("{}", *number));
  }
  return journal_.save(saved.is_complete, state);
}

}  // namespace meg::preprocess
