#include "libmeg/io/atomic_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "libmeg/io/internal/folder_replacement.h"
#include "libmeg/io/internal/made_folders.h"
#include "libmeg/io/internal/partial_path.h"

// Like atomic_file.cpp, for a whole tree: staged under a partial name, its folder locked, flushed,
// put in place, closed. After an exchange the older tree has the staging name and no lock, so if
// the process dies before it has removed it, the next create() for the same path does.

namespace meg::io {
namespace {

namespace fs = std::filesystem;

Result<FileDescriptor> open_folder(const std::string& opened, int flags,
                                   const std::string& name_in_errors) {
  const int fd = ::open(opened.c_str(), flags | O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, name_in_errors);
  return FileDescriptor(fd, name_in_errors);
}

/// Whether `path` still names the folder that is open.
bool is_named(const std::string& path, const FileDescriptor& folder) {
  struct stat named {};

  struct stat opened {};

  return ::lstat(path.c_str(), &named) == 0 && ::fstat(folder.get(), &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/// Removes the staging folders of path whose writers are gone.
void remove_stale_folders(const std::string& path) {
  std::error_code ignored;
  for (fs::directory_iterator at(folder_above(path), ignored), end; at != end;
       at.increment(ignored)) {
    if (!is_partial_name(at->path().filename().string(), path)) continue;
    // The lock is held while the tree goes, so that two processes never remove one tree at once.
    const auto folder = open_folder(at->path().string(), O_NOFOLLOW, path);
    if (!folder.has_value() || ::flock(folder->get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::error_code not_removed;
    fs::remove_all(at->path(), not_removed);
  }
}

Status sync_one(const std::string& path, int flags, const std::string& name_in_errors) {
  const int fd = ::open(path.c_str(), flags | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, name_in_errors);
  return FileDescriptor(fd, name_in_errors).sync();
}

/// Flushes files first, then the folder that names them: a name on the device must never be ahead
/// of what it names. Links are not followed, as what they name is not part of the tree.
Status sync_tree(const std::string& folder, const std::string& name_in_errors) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = name_in_errors + "/" + at->path().filename().string();
    const fs::file_status status = at->symlink_status(error);
    if (error) break;
    if (fs::is_directory(status)) MEG_RETURN_IF_ERROR(sync_tree(at->path().string(), name));
    if (fs::is_regular_file(status)) MEG_RETURN_IF_ERROR(sync_one(at->path().string(), 0, name));
  }
  if (error) return errno_error(error.value(), name_in_errors);
  return sync_one(folder, O_DIRECTORY, name_in_errors);
}

Status check_target(const std::string& path) {
  if (path.empty()) return make_error(StatusCode::kInvalidArgument, "the folder has no name");
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::exists(status) && !fs::is_directory(status)) return errno_error(ENOTDIR, path);
  return Status();
}

}  // namespace

AtomicFolder::AtomicFolder(AtomicFolder&& other) noexcept
    : path_(std::move(other.path_)),
      staging_path_(std::exchange(other.staging_path_, {})),
      lock_(std::move(other.lock_)),
      above_(std::move(other.above_)) {}

AtomicFolder& AtomicFolder::operator=(AtomicFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(staging_path_, other.staging_path_);
  std::swap(lock_, other.lock_);
  std::swap(above_, other.above_);
  return *this;
}

AtomicFolder::~AtomicFolder() { discard(); }

Result<AtomicFolder> AtomicFolder::create(const std::string& path) {
  AtomicFolder out;
  out.path_ = path;
  // With a slash at its end the path has no last component to put a partial name beside.
  while (out.path_.size() > 1 && out.path_.back() == '/') out.path_.pop_back();
  MEG_RETURN_IF_ERROR(check_target(out.path_));
  const std::string above = folder_above(out.path_);
  MEG_RETURN_IF_ERROR(make_folders(above));
  // Opened now: commit() must be able to flush it even if it is renamed meanwhile, and where it may
  // not be read create() fails, before hours of work.
  MEG_ASSIGN_OR_RETURN(out.above_, open_folder(above, 0, above));
  remove_stale_folders(out.path_);
  while (true) {
    const std::string staging = next_partial_path(out.path_);
    if (::mkdir(staging.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      return errno_error(errno, "cannot create " + out.path_);
    }
    auto folder = open_folder(staging, O_NOFOLLOW, out.path_);
    // Until it is locked, another process may take the folder for a stale one and remove it.
    if (!folder.has_value() && folder.error().code() == StatusCode::kNotFound) continue;
    MEG_RETURN_IF_ERROR(folder.status());
    // Where the filesystem knows no locks this fails, and folders of killed processes stay.
    ::flock(folder->get(), LOCK_EX);
    if (!is_named(staging, *folder)) continue;
    out.staging_path_ = staging;
    out.lock_ = std::move(*folder);
    return out;
  }
}

Status AtomicFolder::commit() {
  MEG_RETURN_IF_ERROR(sync_tree(staging_path_, path_));
  MEG_ASSIGN_OR_RETURN(const FolderReplacement replacement, replace_folder(staging_path_, path_));
  staging_path_.clear();  // Now it is path_; should the next step fail, the older tree stays too.
  MEG_RETURN_IF_ERROR(above_.sync());
  MEG_RETURN_IF_ERROR(lock_.close());
  std::error_code ignored;
  if (!replacement.older.empty()) fs::remove_all(replacement.older, ignored);
  return Status();
}

void AtomicFolder::discard() {
  std::error_code ignored;
  if (!staging_path_.empty()) fs::remove_all(staging_path_, ignored);
  staging_path_.clear();
  if (!path_.empty()) remove_made_folders(folder_above(path_));
}

}  // namespace meg::io
