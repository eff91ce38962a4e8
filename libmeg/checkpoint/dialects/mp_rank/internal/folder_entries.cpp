#include "libmeg/checkpoint/dialects/mp_rank/internal/folder_entries.h"

#include <fmt/format.h>

#include <filesystem>

namespace meg::checkpoint {

Result<FolderEntries> FolderEntries::list(const std::string& path) {
  FolderEntries entries;
  std::error_code error;
  std::filesystem::directory_iterator at(path, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::error_code ignored;  // a dangling link is no folder
    entries.is_folder_.emplace(at->path().filename().string(), at->is_directory(ignored));
  }
  if (error) return errno_error(error.value(), path);
  return entries;
}

bool FolderEntries::has_file(std::string_view name) const {
  const auto found = is_folder_.find(name);
  return found != is_folder_.end() && !found->second;
}

bool FolderEntries::has_folder(std::string_view name) const {
  const auto found = is_folder_.find(name);
  return found != is_folder_.end() && found->second;
}

std::string join_path(const std::string& folder, std::string_view name) {
  return fmt::format("{}{}{}", folder, folder.ends_with('/') ? "" : "/", name);
}

}  // namespace meg::checkpoint
