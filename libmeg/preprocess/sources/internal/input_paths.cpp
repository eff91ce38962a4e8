#include "libmeg/preprocess/sources/internal/input_paths.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "libmeg/preprocess/sources/internal/input_file.h"
#include "libmeg/s3/find_objects.h"
#include "libmeg/s3/object_store.h"

namespace meg::preprocess {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  struct stat info {};

  return ::lstat(path.c_str(), &info) == 0;
}

Status append_folder(const std::string& folder, std::vector<std::string>& paths) {
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code gone;
    // As glob and shells treat hidden files: .cache, .DS_Store and editors' backups are no data.
    const bool is_hidden = entry->path().filename().string().starts_with('.');
    if (!is_hidden && !entry->is_directory(gone)) paths.push_back(entry->path().string());
  }
  return failed ? errno_error(failed.value(), folder) : Status();
}

Status append_matches(const std::string& pattern, std::vector<std::string>& paths) {
  glob_t matches{};
  // In no order: bytes are compared below, as the locale's order would make outputs differ between
  // machines.
  const int failed = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  for (size_t i = 0; failed == 0 && i < matches.gl_pathc; ++i) {
    paths.emplace_back(matches.gl_pathv[i]);
  }
  ::globfree(&matches);
  return Status();
}

/// What a folder or pattern brought along. A pipe that nobody writes to would be waited for without
/// end, and whoever did not name it would not know for what.
Status refuse_pipes(const std::vector<std::string>& found) {
  for (const std::string& path : found) {
    std::error_code missing;  // reading it says so
    const fs::file_type type = fs::status(path, missing).type();
    if (type != fs::file_type::fifo && type != fs::file_type::character) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected a file, found a {}, which is read only where --input names it",
                      path, type == fs::file_type::fifo ? "pipe" : "device");
  }
  return Status();
}

/// Appends the files that `input` names, sorted.
Status append_files(const std::string& input, std::vector<std::string>& paths) {
  if (s3::is_address(input)) {
    MEG_ASSIGN_OR_RETURN(const std::vector<std::string> found, s3::find_objects(input));
    paths.insert(paths.end(), found.begin(), found.end());
    return Status();
  }
  // s3:// apart, an address is most likely meant as such. A file that is really called so is read.
  if (input.find("://") != std::string::npos && !exists(input)) {
    return make_error(StatusCode::kUnsupported,
                      "{}: expected a path on this machine or s3://: other addresses are not read",
                      input);
  }
  std::error_code missing;
  const bool is_folder = fs::is_directory(input, missing);
  // A path that exists is never a pattern, so that brackets in names need no quoting.
  const bool is_literal = input.find_first_of("*?[") == std::string::npos || exists(input);
  if (is_literal && !is_folder) {
    paths.push_back(input);
    return Status();
  }
  std::vector<std::string> found;
  MEG_RETURN_IF_ERROR(is_folder ? append_folder(input, found) : append_matches(input, found));
  if (found.empty()) {
    return make_error(StatusCode::kNotFound, "{}: no file {}", input,
                      is_folder ? "in this folder" : "matches this pattern");
  }
  std::sort(found.begin(), found.end());
  MEG_RETURN_IF_ERROR(refuse_pipes(found));
  paths.insert(paths.end(), found.begin(), found.end());
  return Status();
}

/// A file's name without .gz, .zst and .xz, in small letters: endings are taken in any.
std::string unpacked_name(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  for (const std::string_view ending : {".gz", ".zst", ".xz"}) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

}  // namespace

Result<std::vector<std::string>> resolve_inputs(const std::vector<std::string>& inputs) {
  std::vector<std::string> paths;
  for (const std::string& input : inputs) MEG_RETURN_IF_ERROR(append_files(input, paths));
  if (std::count(paths.begin(), paths.end(), kStandardInput) > 1) {
    return make_error(StatusCode::kInvalidArgument,
                      "standard input: expected once among the inputs, found again");
  }
  return paths;
}

InputFormat format_of(const std::string& path, const InputOptions& options) {
  if (options.format != InputFormat::kAuto) return options.format;
  const std::string name = unpacked_name(path);
  if (name.ends_with(".csv")) return InputFormat::kCsv;
  if (name.ends_with(".txt")) return InputFormat::kTxt;
  return InputFormat::kJson;
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
    return invalid(fmt::format("csv_columns: expected one for each of {} JSON keys, found {}",
                               keys.size(), options.csv_columns.size()));
  }
  const bool is_separated = options.txt_document == TxtDocument::kSeparated;
  if (is_separated == options.txt_separator.empty()) {
    return invalid(is_separated ? "txt_separator: expected at least one byte, found none"
                                : "txt_separator: only where it separates documents");
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
