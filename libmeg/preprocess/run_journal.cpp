#include "libmeg/preprocess/run_journal.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>

#include "libmeg/io/atomic_file.h"
#include "libmeg/io/crc32.h"
#include "libmeg/io/file_descriptor.h"
#include "libmeg/preprocess/sources/internal/input_file.h"
#include "libmeg/preprocess/sources/internal/input_paths.h"
#include "libmeg/text/printable.h"

// A text file: a first line, the run's settings, the checkpoint's numbers, a CRC-32 of everything
// before. Settings are compared as lines in order, so that a setting that is added later makes
// older journals differ instead of being taken for the default.

namespace meg::preprocess {
namespace {

constexpr std::string_view kFirstLine = "libmeg preprocess journal 1";
constexpr std::string_view kState = "state ";       // begins the names of the checkpoint's lines
constexpr std::string_view kComplete = "complete";  // the first of them
constexpr std::string_view kChecksum = "crc32 ";    // begins the last line

/// Bytes of a journal of millions of inputs.
constexpr int64_t kMaxJournal = int64_t{1} << 30;

Status damaged_at(const std::string& path) {
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
  if (size > kMaxJournal) return damaged_at(path);
  std::string text(static_cast<size_t>(size), '\0');
  MEG_RETURN_IF_ERROR(file.read_exactly_at(0, std::as_writable_bytes(std::span(text))));
  return std::optional(std::move(text));
}

/// The lines between the first and the checksum; nothing where the text is damaged.
std::optional<JournalLines> parse(std::string_view text) {
  // Take the last occurrence: settings may contain the word, and the checksum's line is after them.
  const size_t end = text.rfind(kChecksum);
  if (end == text.npos) return std::nullopt;
  const std::string last = fmt::format("{}{:08x}\n", kChecksum, checksum(text.substr(0, end)));
  if (text.substr(end) != last) return std::nullopt;
  JournalLines lines;
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

std::string journal_path(const std::string& prefix) { return prefix + ".resume/journal"; }

std::string state_name(std::string_view name) { return std::string(kState).append(name); }

}  // namespace

std::string one_line(std::string_view text) {
  return text::printable(text, std::numeric_limits<size_t>::max());
}

Status add_inputs(const std::vector<std::string>& inputs, JournalLines& lines) {
  MEG_ASSIGN_OR_RETURN(const InputPaths paths, resolve_inputs(inputs));
  lines.emplace_back("inputs", fmt::format("{}", paths.files.size()));
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
    lines.emplace_back("input " + one_line(path), std::move(identity));
  }
  return Status();
}

/// Whether the journal's run is this one.
Status RunJournal::check_same(const JournalLines& found) const {
  constexpr std::string_view kNothing = "nothing";
  for (size_t i = 0; i < std::max(run_.size(), found.size()); ++i) {
    if (i < run_.size() && i < found.size() && run_[i] == found[i]) continue;
    const bool has_both = i < run_.size() && i < found.size() && run_[i].first == found[i].first;
    const auto text = [&](const JournalLines& lines) {
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

Result<RunJournal> RunJournal::open(const std::string& prefix, JournalLines run,
                                    std::chrono::milliseconds interval) {
  RunJournal journal;
  journal.path_ = journal_path(prefix);
  journal.run_ = std::move(run);
  journal.interval_ = interval;
  // Two processes that resume one run would write the same files.
  MEG_ASSIGN_OR_RETURN(auto lock, io::FileLock::try_acquire(journal.path_ + ".lock"));
  if (!lock.has_value()) {
    return make_error(StatusCode::kIoError, "{}: another process is using it", journal.path_);
  }
  journal.lock_ = std::move(*lock);
  MEG_ASSIGN_OR_RETURN(const auto text, read_journal(journal.path_));
  if (!text.has_value()) return journal;
  const auto lines = parse(*text);
  if (!lines.has_value()) return journal.damaged();
  const auto state = std::find_if(lines->begin(), lines->end(),
                                  [](const auto& line) { return line.first.starts_with(kState); });
  MEG_RETURN_IF_ERROR(journal.check_same(JournalLines(lines->begin(), state)));
  if (state == lines->end() || state->first != state_name(kComplete)) return journal.damaged();
  journal.is_complete_ = state->second == "yes";
  journal.state_.emplace();
  for (auto line = state + 1; line != lines->end(); ++line) {
    if (!line->first.starts_with(kState)) return journal.damaged();
    journal.state_->emplace_back(line->first.substr(kState.size()), line->second);
  }
  return journal;
}

// A run that does not resume is about to write new outputs, so a journal of an older run must
// not stay. If that run is unfinished, someone may want to resume it: it is not overwritten without
// being asked.
Status RunJournal::make_way(const std::string& prefix) {
  const std::string path = journal_path(prefix);
  MEG_ASSIGN_OR_RETURN(const auto text, read_journal(path));
  if (!text.has_value()) return Status();
  const auto lines = parse(*text);
  if (!lines.has_value()) return damaged_at(path);
  const std::pair<std::string, std::string> complete(state_name(kComplete), "yes");
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

bool RunJournal::is_due() const { return std::chrono::steady_clock::now() >= next_; }

Status RunJournal::damaged() const { return damaged_at(path_); }

Status RunJournal::save(bool is_complete, const JournalLines& state) {
  std::string text = std::string(kFirstLine) + "\n";
  for (const auto& [name, value] : run_) text += fmt::format("{}\t{}\n", name, value);
  text += fmt::format("{}\t{}\n", state_name(kComplete), is_complete ? "yes" : "no");
  for (const auto& [name, value] : state) text += fmt::format("{}\t{}\n", state_name(name), value);
  text += fmt::format("{}{:08x}\n", kChecksum, checksum(text));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create(path_));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  MEG_RETURN_IF_ERROR(file.commit());
  // Counted from the end of saving, so that a slow disk does not save all the time.
  next_ = std::chrono::steady_clock::now() + interval_;
  return Status();
}

}  // namespace meg::preprocess
