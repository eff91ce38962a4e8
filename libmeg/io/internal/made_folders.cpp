#include "libmeg/io/internal/made_folders.h"

#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>

// Outputs, locks and staging folders share the folders that they are in. Whichever is given up last
// removes them, so what was made is known to the process, not to one of them.

namespace meg::io {
namespace {

namespace fs = std::filesystem;

struct MadeFolders {
  std::mutex mutex;
  std::set<std::string> paths;
};

MadeFolders& made_folders() {
  static MadeFolders made;
  return made;
}

}  // namespace

Status make_folders(const std::string& folder) {
  MadeFolders& made = made_folders();
  std::error_code error;
  {
    const std::lock_guard lock(made.mutex);
    for (fs::path at = folder; !at.empty() && !fs::exists(at, error); at = at.parent_path()) {
      made.paths.insert(at.string());
    }
    fs::create_directories(folder, error);
  }
  if (!error) return Status();
  remove_made_folders(folder);
  return errno_error(error.value(), "cannot create folder " + folder);
}

void remove_made_folders(const std::string& folder) {
  MadeFolders& made = made_folders();
  const std::lock_guard lock(made.mutex);
  for (fs::path at = folder; made.paths.contains(at.string()); at = at.parent_path()) {
    std::error_code missing;
    if (::rmdir(at.c_str()) != 0 && fs::exists(at, missing)) break;  // Others use it.
    made.paths.erase(at.string());
  }
}

}  // namespace meg::io
