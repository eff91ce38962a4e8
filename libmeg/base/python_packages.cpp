#include "libmeg/base/python_packages.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace meg {
namespace {

namespace fs = std::filesystem;

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// Adds `package` of PREFIX/lib/python3*/{site,dist}-packages, of the newest Python first.
void add_folders(const fs::path& prefix, std::string_view package,
                 std::vector<std::string>& folders) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(prefix / "lib", error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->path().filename().native().starts_with("python3")) continue;
    for (const char* const packages : {"site-packages", "dist-packages"}) {
      std::error_code absent;
      const fs::path folder = entry->path() / packages / package;
      if (fs::is_directory(folder, absent)) found.push_back(folder.native());
    }
  }
  std::sort(found.rbegin(), found.rend());
  folders.insert(folders.end(), found.begin(), found.end());
}

/// The prefix of the first `python3` in PATH; a virtual environment is one too. Empty if there is
/// none.
fs::path python_prefix() {
  std::string_view path = variable("PATH");
  while (!path.empty()) {
    const size_t colon = path.find(':');
    const fs::path folder = path.substr(0, colon);
    if (folder.is_absolute() && ::access((folder / "python3").c_str(), X_OK) == 0) {
      return folder.lexically_normal().parent_path();
    }
    if (colon == std::string_view::npos) break;
    path.remove_prefix(colon + 1);
  }
  return {};
}

}  // namespace

std::vector<std::string> python_package_folders(std::string_view package) {
  std::vector<std::string> folders;
  const fs::path prefix = python_prefix();
  const fs::path home = variable("HOME");
  if (!prefix.empty()) add_folders(prefix, package, folders);
  if (prefix == "/usr") {
    // The system's Python also sees what pip installs for everyone and for this user.
    add_folders("/usr/local", package, folders);
    if (home.is_absolute()) add_folders(home / ".local", package, folders);
  }
  fs::path deps = variable("MEG_DEPS");
  if (deps.empty() && home.is_absolute()) deps = home / ".cache" / "libmeg";
  if (!deps.empty()) add_folders(deps / "venv", package, folders);
  return folders;
}

}  // namespace meg
