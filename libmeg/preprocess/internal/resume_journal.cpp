#include "libmeg/preprocess/internal/resume_journal.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string_view>

#include "libmeg/io/atomic_file.h"
#include "libmeg/io/crc32.h"
#include "libmeg/io/file_descriptor.h"
#include "libmeg/preprocess/internal/document_sink.h"
#include "libmeg/preprocess/internal/run_settings.h"
#include "libmeg/preprocess/sources/internal/input_file.h"
#include "libmeg/preprocess/sources/internal/input_paths.h"

// A text file: a first line, the run's settings, the checkpoint's numbers, a CRC-32 of everything
// before. Settings are compared as lines in order, so that a setting that is added later makes
// older journals differ instead of being taken for the default.

namespace meg::preprocess {
namespace {

constexpr std::string_view kFirstLine = "libmeg preprocess journal 1";
constexpr std::string_view kState = "state ";     // begins the names of the checkpoint's lines
constexpr std::string_view kChecksum = "crc32 ";  // begins the last line

/// Sizes and counts beyond this are damage, and sums of them do not overflow.
constexpr int64_t kMaxCount = int64_t{1} << 56;

/// Bytes of a journal of millions of inputs.
constexpr int64_t kMaxJournal = int64_t{1} << 30;

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

Status damaged(const std::string& path) {
  return make_error(StatusCode::kCorruption,
                    "{}: damaged, so the run cannot be resumed; remove it to start over", path);
}

uint32_t checksum(std::string_view text) {
  return io::crc32(std::as_bytes(std::span(text.data(), text.size())));
}

/// The file's text; nothing where there is no file.
Result<std::optional<std::string>> read_journal(const std::string& path) {
  struct stat info {};

  if (::stat(path.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    return std::optional<std::string>();
  }
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor file, io::FileDescriptor::open_regular(path));
  MEG_ASSIGN_OR_RETURN(const int64_t size, file.size());
  if (size > kMaxJournal) return damaged(path);
  std::string text(static_cast<size_t>(size), '\0');
  MEG_RETURN_IF_ERROR(file.read_exactly_at(0, std::as_writable_bytes(std::span(text))));
  return std::optional(std::move(text));
}

/// The lines between the first and the checksum; nothing where the text is damaged.
std::optional<std::vector<std::pair<std::string, std::string>>> parse(std::string_view text) {
  // Take the last occurrence: settings may contain the word, and the checksum's line is after them.
  const size_t end = text.rfind(kChecksum);
  if (end == text.npos) return std::nullopt;
  const std::string last = fmt::format("{}{:08x}\n", kChecksum, checksum(text.substr(0, end)));
  if (text.substr(end) != last) return std::nullopt;
  std::vector<std::pair<std::string, std::string>> lines;
  bool is_first = true;
  for (std::string_view rest = text.substr(0, end); !rest.empty(); is_first = false) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (is_first && line != kFirstLine) return std::nullopt;
    if (is_first) continue;
    const size_t tab = line.find('\t');
    if (tab == line.npos) return std::nullopt;
    lines.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  }
  return lines;
}

/// Takes the checkpoint's lines off; false where they are not as save() writes them.
bool take_checkpoint(std::vector<std::pair<std::string, std::string>>& lines, Checkpoint& at) {
  const auto begin = std::find_if(lines.begin(), lines.end(),
                                  [](const auto& line) { return line.first.starts_with(kState); });
  auto line = begin;
  if (line == lines.end() || line->first != std::string(kState) + "complete") return false;
  at.is_complete = (line++)->second == "yes";
  for (const auto& [name, number] : numbers(at)) {
    if (line == lines.end() || line->first != std::string(kState) + name) return false;
    const std::string& value = line->second;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), *number);
    if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size()) return false;
    // Check before they are added to or read at.
    if (*number < 0 || *number > kMaxCount) return false;
    ++line;
  }
  const bool is_all = line == lines.end();
  lines.erase(begin, lines.end());
  return is_all;
}

std::string journal_path(const PreprocessOptions& options) {
  return sharded_prefix(options) + ".resume/journal";
}

}  // namespace

void ResumeJournal::add(std::string name, std::string value) {
  run_.emplace_back(std::move(name), std::move(value));
}

/// Everything that decides the bytes. What decides only the speed may change.
Status ResumeJournal::describe(const PreprocessOptions& options, DType dtype) {
  run_ = run_settings(options, dtype);
  add("max_documents", fmt::format("{}", options.max_documents.value_or(0)));
  // Chunks end where they ended before only with the same size.
  add("chunk_bytes", fmt::format("{}", options.chunk_bytes));
  add("shard", fmt::format("{}/{}", options.input.shard.index, options.input.shard.count));
  for (const auto& [name, value] : options.resume_identity) add(one_line(name), one_line(value));
  return describe_inputs(options);
}

Status ResumeJournal::describe_inputs(const PreprocessOptions& options) {
  MEG_ASSIGN_OR_RETURN(const InputPaths paths, resolve_inputs(options.inputs));
  add("inputs", fmt::format("{}", paths.files.size()));
  for (const std::string& path : paths.files) {
    if (path == kStandardInput) {
      return Status(StatusCode::kUnsupported, "`resume`: expected files, found standard input");
    }
    MEG_ASSIGN_OR_RETURN(const std::unique_ptr<InputFile> file, InputFile::open(path));
    MEG_ASSIGN_OR_RETURN(const auto extent, file->extent());
    if (!extent.has_value()) {
      return make_error(StatusCode::kUnsupported, "`resume`: {}: expected a regular file", path);
    }
    // Size and time of change, or a store's ETag: shows that a file was changed since, without
    // reading it.
    MEG_ASSIGN_OR_RETURN(std::string identity, file->identity());
    add("input " + one_line(path), std::move(identity));
  }
  return Status();
}

/// Whether the journal's run is this one.
Status ResumeJournal::check_same(const Lines& found) const {
  constexpr std::string_view kNothing = "nothing";
  for (size_t i = 0; i < std::max(run_.size(), found.size()); ++i) {
    if (i < run_.size() && i < found.size() && run_[i] == found[i]) continue;
    const bool has_both = i < run_.size() && i < found.size() && run_[i].first == found[i].first;
    const auto text = [&](const Lines& lines) {
      if (i >= lines.size()) return std::string(kNothing);
      return has_both ? lines[i].second : lines[i].first + ": " + lines[i].second;
    };
    return make_error(
        StatusCode::kInvalidArgument,
        "{}: its run had {}{}, this one has {}: use the same as before, or remove it to start over",
        path_, has_both ? run_[i].first + " " : "", text(found), text(run_));
  }
  return Status();
}

Result<ResumeJournal> ResumeJournal::open(const PreprocessOptions& options, DType dtype) {
  if (options.partitions > 1) {
    return Status(StatusCode::kUnsupported, "`resume`: cannot be combined with `partitions`");
  }
  ResumeJournal journal;
  journal.path_ = journal_path(options);
  journal.interval_ = options.checkpoint_interval;
  // Two processes that resume one run would write the same files.
  MEG_ASSIGN_OR_RETURN(auto lock, io::FileLock::try_acquire(journal.path_ + ".lock"));
  if (!lock.has_value()) {
    return make_error(StatusCode::kIoError, "{}: another process is using it", journal.path_);
  }
  journal.lock_ = std::move(*lock);
  MEG_RETURN_IF_ERROR(journal.describe(options, dtype));
  journal.checkpoint_.marks.resize(options.json_keys.size());
  MEG_ASSIGN_OR_RETURN(const auto text, read_journal(journal.path_));
  if (!text.has_value()) return journal;
  auto lines = parse(*text);
  if (!lines.has_value()) return damaged(journal.path_);
  const auto state = std::find_if(lines->begin(), lines->end(),
                                  [](const auto& line) { return line.first.starts_with(kState); });
  MEG_RETURN_IF_ERROR(journal.check_same(Lines(lines->begin(), state)));
  if (!take_checkpoint(*lines, journal.checkpoint_)) return damaged(journal.path_);
  return journal;
}

// A run that does not resume is about to write new outputs, so a journal of an older run must
// not stay. If that run is unfinished, someone may want to resume it: it is not overwritten without
// being asked.
Status ResumeJournal::make_way(const PreprocessOptions& options) {
  const std::string path = journal_path(options);
  MEG_ASSIGN_OR_RETURN(const auto text, read_journal(path));
  if (!text.has_value()) return Status();
  const auto lines = parse(*text);
  if (!lines.has_value()) return damaged(path);
  const std::pair<std::string, std::string> complete(std::string(kState) + "complete", "yes");
  if (std::find(lines->begin(), lines->end(), complete) == lines->end()) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: an unfinished run: resume it, or remove the journal to start over",
                      path);
  }
  std::error_code failed;
  std::filesystem::remove(path, failed);
  if (failed) return errno_error(failed.value(), path);
  // A folder that stays, empty or with something of others, does no harm.
  std::filesystem::remove(std::filesystem::path(path).parent_path(), failed);
  return Status();
}

bool ResumeJournal::is_due() const { return std::chrono::steady_clock::now() >= next_; }

Status ResumeJournal::save(const Checkpoint& checkpoint) {
  std::string text = std::string(kFirstLine) + "\n";
  for (const auto& [name, value] : run_) text += fmt::format("{}\t{}\n", name, value);
  Checkpoint saved = checkpoint;
  text += fmt::format("{}complete\t{}\n", kState, saved.is_complete ? "yes" : "no");
  for (const auto& [name, number] : numbers(saved)) {
    text += fmt::format("{}{}\t{}\n", kState, name, *number);
  }
  text += fmt::format("{}{:08x}\n", kChecksum, checksum(text));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create(path_));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  MEG_RETURN_IF_ERROR(file.commit());
  // Counted from the end of saving, so that a slow disk does not save all the time.
  next_ = std::chrono::steady_clock::now() + interval_;
  return Status();
}

}  // namespace meg::preprocess
