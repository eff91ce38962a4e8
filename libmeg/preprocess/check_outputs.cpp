#include "libmeg/preprocess/check_outputs.h"

#include <fnmatch.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "libmeg/preprocess/sources/internal/input_file.h"
#include "libmeg/s3/object_store.h"

namespace meg::preprocess {
namespace {

namespace fs = std::filesystem;

/// Identifies a file, however its path is spelled.
using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> file_id(const fs::path& path) {
  struct stat info {};

  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileId(info.st_dev, info.st_ino);
}

fs::path normal(const fs::path& path) {
  std::error_code ignored;  // without the current folder, paths are compared as they are
  return fs::absolute(path, ignored).lexically_normal();
}

/// The files of a run, to be asked for by what might read them. All are in one folder.
class Outputs {
 public:
  explicit Outputs(std::vector<std::string> names) : names_(std::move(names)) {
    for (const std::string& name : names_) {
      paths_.push_back(normal(name));
      if (const auto id = file_id(name)) present_.emplace(*id, name);
    }
  }

  /// The one that an input names or finds; empty where there is none.
  std::string among(const std::string& input) const {
    std::error_code missing;
    if (fs::is_directory(input, missing)) return is_read(input) ? names_.front() : "";
    if (const auto id = file_id(input)) {
      const auto found = present_.find(*id);
      return found == present_.end() ? "" : found->second;
    }
    const std::string pattern = normal(input).string();
    for (size_t i = 0; i < paths_.size(); ++i) {
      if (::fnmatch(pattern.c_str(), paths_[i].c_str(), FNM_PATHNAME | FNM_PERIOD) == 0) {
        return names_[i];
      }
    }
    return {};
  }

 private:
  /// Whether they are in this folder and not hidden, as hidden files of folders are not read.
  bool is_read(const std::string& folder) const {
    const auto id = file_id(paths_.front().parent_path());
    return id.has_value() && id == file_id(folder) &&
           !paths_.front().filename().string().starts_with('.');
  }

  std::vector<std::string> names_;  // as they were given
  std::vector<fs::path> paths_;
  std::map<FileId, std::string> present_;
};

}  // namespace

Status check_outputs(const std::vector<std::string>& inputs, std::vector<std::string> outputs) {
  const Outputs files(std::move(outputs));
  for (const std::string& input : inputs) {
    if (input == kStandardInput || s3::is_address(input)) continue;
    const std::string found = files.among(input);
    if (found.empty()) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected inputs without the files to be written, found {} among them",
                      input, found);
  }
  return Status();
}

}  // namespace meg::preprocess
