#include "libmeg/preprocess/sources/internal/input_paths.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "libmeg/preprocess/sources/internal/input_file.h"
#include "libmeg/s3/find_objects.h"
#include "libmeg/s3/object_store.h"
#include "libmeg/text/ascii.h"

namespace meg::preprocess {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  struct stat info {};

  return ::lstat(path.c_str(), &info) == 0;
}

/// What is in a folder. Hidden ones are left out, as glob and shells do: .cache, .DS_Store and
/// editors' backups are no data.
struct Folder {
  std::vector<std::string> files;
  std::vector<std::string> folders;
};

Result<Folder> list_folder(const std::string& path) {
  Folder folder;
  std::error_code failed;
  for (fs::directory_iterator entry(path, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code gone;
    if (entry->path().filename().string().starts_with('.')) continue;
    (entry->is_directory(gone) ? folder.folders : folder.files).push_back(entry->path().string());
  }
  if (failed) return errno_error(failed.value(), path);
  std::sort(folder.folders.begin(), folder.folders.end());
  return folder;
}

Status append_matches(const std::string& pattern, std::vector<std::string>& paths) {
  glob_t matches{};
  // Do not sort: bytes are compared below, as the locale's order would make outputs differ between
  // machines.
  const int failed = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  for (size_t i = 0; failed == 0 && i < matches.gl_pathc; ++i) {
    paths.emplace_back(matches.gl_pathv[i]);
  }
  ::globfree(&matches);
  return Status();
}

/// What a folder or pattern brought along. A pipe that nobody writes to would be waited for without
/// end, and whoever did not name it would not know for what; of a folder that a pattern matches its
/// name does not say whether its files are meant.
Status refuse_others(const std::vector<std::string>& found) {
  for (const std::string& path : found) {
    std::error_code missing;  // reading it says so
    const fs::file_type type = fs::status(path, missing).type();
    const char* const found_type = type == fs::file_type::fifo        ? "pipe"
                                   : type == fs::file_type::character ? "device"
                                   : type == fs::file_type::directory ? "folder"
                                                                      : nullptr;
    if (found_type == nullptr) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected a file, found a {}, which is only read if `input` names it",
                      path, found_type);
  }
  return Status();
}

/// Endings of compressed files, after those of their content.
constexpr std::string_view kPackedEndings[] = {".gz", ".zst", ".xz"};

bool is_packed_ending(std::string_view ending) {
  return std::find(std::begin(kPackedEndings), std::end(kPackedEndings), ending) !=
         std::end(kPackedEndings);
}

std::string_view folder_of(std::string_view path) { return path.substr(0, path.rfind('/') + 1); }

std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// Such as .jsonl.gz; empty where a name has no dot.
std::string_view ending_of(std::string_view name) {
  const size_t dot = std::min(name.rfind('.'), name.size());
  if (dot == 0 || !is_packed_ending(name.substr(dot))) return name.substr(dot);
  return name.substr(std::min(name.rfind('.', dot - 1), dot));
}

/// Takes out the files in which Hugging Face's `datasets` describes the .arrow files beside them.
void leave_descriptions_aside(std::vector<std::string>& found, InputPaths& paths) {
  std::set<std::string_view> folders;
  for (const std::string& path : found) {
    if (path.ends_with(".arrow")) folders.insert(folder_of(path));
  }
  std::vector<std::string> data;
  for (const std::string& path : found) {
    const std::string_view name = name_of(path);
    const bool is_aside =
        (name == "dataset_info.json" || name == "state.json") && folders.contains(folder_of(path));
    if (is_aside) {
      paths.notes.push_back(
          fmt::format("{}: left aside: it describes the .arrow files beside it", path));
    } else {
      data.push_back(path);
    }
  }
  found = std::move(data);
}

/// Appends the files that a folder or pattern brought along, sorted.
Status append_found(std::vector<std::string> found, InputPaths& paths) {
  std::sort(found.begin(), found.end());
  MEG_RETURN_IF_ERROR(refuse_others(found));
  leave_descriptions_aside(found, paths);
  paths.files.insert(paths.files.end(), found.begin(), found.end());
  return Status();
}

Status append_folder(const std::string& path, InputPaths& paths) {
  MEG_ASSIGN_OR_RETURN(Folder folder, list_folder(path));
  // Beside folders alone it describes them: `datasets` writes it for several splits.
  const bool is_of_splits = folder.files.size() == 1 && !folder.folders.empty() &&
                            name_of(folder.files.front()) == "dataset_dict.json";
  if (is_of_splits) folder.files.clear();
  const std::string folders =
      folder.folders.empty()
          ? ""
          : fmt::format("{} in it, such as {}", folder.folders.size(), folder.folders.front());
  if (folder.files.empty()) {
    return make_error(StatusCode::kNotFound, "{}: no file in this folder{}", path,
                      folders.empty() ? "" : fmt::format("; folders are not read: {}", folders));
  }
  if (!folders.empty()) {
    paths.notes.push_back(fmt::format("{}: folders are not read: {}", path, folders));
  }
  return append_found(std::move(folder.files), paths);
}

/// Appends the files that `input` names.
Status append_files(const std::string& input, InputPaths& paths) {
  if (s3::is_address(input)) {
    MEG_ASSIGN_OR_RETURN(std::vector<std::string> found, s3::find_objects(input));
    if (found != std::vector{input}) leave_descriptions_aside(found, paths);
    paths.files.insert(paths.files.end(), found.begin(), found.end());
    return Status();
  }
  // s3:// apart, an address is most likely meant as such. A file that is really called so is read.
  if (input.find("://") != std::string::npos && !exists(input)) {
    return make_error(StatusCode::kUnsupported,
                      "{}: expected a path on this machine or s3://: other addresses are not read",
                      input);
  }
  std::error_code missing;
  if (fs::is_directory(input, missing)) return append_folder(input, paths);
  // A path that exists is never a pattern, so that brackets in names need no quoting.
  if (input.find_first_of("*?[") == std::string::npos || exists(input)) {
    paths.files.push_back(input);
    return Status();
  }
  std::vector<std::string> found;
  MEG_RETURN_IF_ERROR(append_matches(input, found));
  if (!found.empty()) return append_found(std::move(found), paths);
  return make_error(StatusCode::kNotFound, "{}: no file matches this pattern", input);
}

/// Files that are among the inputs more than once, by whatever names: on purpose, or a pattern and
/// a folder that both have them.
void note_repeated(InputPaths& paths) {
  std::set<std::pair<dev_t, ino_t>> files;
  std::set<std::string> objects;
  size_t repeated = 0;
  const std::string* first = nullptr;
  for (const std::string& path : paths.files) {
    struct stat info {};

    const bool is_object = s3::is_address(path);
    // Opening reports what is missing.
    if (!is_object && (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))) continue;
    const bool is_new =
        is_object ? objects.insert(path).second : files.insert({info.st_dev, info.st_ino}).second;
    if (is_new) continue;
    if (repeated++ == 0) first = &path;
  }
  if (repeated == 0) return;
  paths.notes.push_back(
      repeated == 1
          ? fmt::format("{}: is read twice", *first)
          : fmt::format("{}: is read twice, as are others: {} inputs in all", *first, repeated));
}

/// A file's name without .gz, .zst and .xz, in small letters: endings are taken in any.
std::string unpacked_name(const std::string& path) {
  std::string name(name_of(path));
  std::transform(name.begin(), name.end(), name.begin(), text::ascii_lower);
  for (const std::string_view ending : kPackedEndings) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

}  // namespace

Result<InputPaths> resolve_inputs(const std::vector<std::string>& inputs) {
  InputPaths paths;
  for (const std::string& input : inputs) MEG_RETURN_IF_ERROR(append_files(input, paths));
  if (std::count(paths.files.begin(), paths.files.end(), kStandardInput) > 1) {
    return make_error(StatusCode::kInvalidArgument,
                      "standard input: occurs twice among the inputs");
  }
  note_repeated(paths);
  return paths;
}

Status with_pattern(const Status& status, const std::string& path,
                    const std::vector<std::string>& files) {
  if (status.ok()) return status;
  const std::string_view folder = folder_of(path);
  std::map<std::string_view, size_t> endings;  // of the other files in its folder
  for (const std::string& file : files) {
    const std::string_view ending = ending_of(name_of(file));
    if (file != path && folder_of(file) == folder && !ending.empty()) ++endings[ending];
  }
  const bool has_alike = endings.erase(ending_of(name_of(path))) > 0;
  if (endings.empty() && !has_alike) return status;
  if (endings.empty()) {
    return Status(status.code(),
                  fmt::format("{} (if it is no data, name the other files or a pattern of them)",
                              status.message()));
  }
  const auto most =
      std::max_element(endings.begin(), endings.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return Status(status.code(), fmt::format("{} (a pattern such as '{}*{}' leaves this file out)",
                                           status.message(), folder, most->first));
}

InputFormat format_of(const std::string& path, const InputOptions& options) {
  if (options.format != InputFormat::kAuto) return options.format;
  const std::string name = unpacked_name(path);
  if (name.ends_with(".csv")) return InputFormat::kCsv;
  if (name.ends_with(".txt")) return InputFormat::kTxt;
  return InputFormat::kJson;
}

void note_idle_options(const InputOptions& options, const std::vector<std::string>& files,
                       std::vector<std::string>& notes) {
  const auto is_any = [&](InputFormat format) {
    return std::any_of(files.begin(), files.end(),
                       [&](const std::string& file) { return format_of(file, options) == format; });
  };
  if ((!options.csv_columns.empty() || options.csv_has_header) && !is_any(InputFormat::kCsv)) {
    notes.emplace_back("`csv_columns`, `csv_has_header`: no input is a csv, by its name");
  }
  if (options.txt_document != TxtDocument::kFile && !is_any(InputFormat::kTxt)) {
    notes.emplace_back("`txt_document`, `txt_separator`: no input is plain text, by its name");
  }
}

bool is_named_as_columns(const std::string& path) {
  const std::string name = unpacked_name(path);
  return name.ends_with(".parquet") || name.ends_with(".arrow") || name.ends_with(".feather");
}

Status check_input_options(const InputOptions& options, const std::vector<std::string>& keys) {
  const auto invalid = [](std::string message) {
    return Status(StatusCode::kInvalidArgument, std::move(message));
  };
  if (!options.csv_columns.empty() && options.csv_columns.size() != keys.size()) {
    return invalid(fmt::format("`csv_columns`: expected one for each of {} JSON keys, found {}",
                               keys.size(), options.csv_columns.size()));
  }
  const bool is_separated = options.txt_document == TxtDocument::kSeparated;
  if (is_separated == options.txt_separator.empty()) {
    return invalid(is_separated ? "`txt_separator`: expected at least one byte, found none"
                                : "`txt_separator`: only used if it separates documents");
  }
  const Shard& shard = options.shard;
  if (shard.index < 0 || shard.index >= shard.count) {
    return invalid(fmt::format("shard: expected 0 <= index < count, found {} of {}", shard.index,
                               shard.count));
  }
  if (options.max_compression_ratio < 1) {
    return invalid("max_compression_ratio: expected at least 1");
  }
  return Status();
}

}  // namespace meg::preprocess
