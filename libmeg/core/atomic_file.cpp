#include "libmeg/core/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

namespace meg {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

Status sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, folder.string());
  return FileDescriptor(fd, folder.string()).sync();
}

}  // namespace

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : file_(std::move(other.file_)),
      path_(std::move(other.path_)),
      partial_path_(std::exchange(other.partial_path_, {})) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  std::swap(partial_path_, other.partial_path_);
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::remove_stale_partials(const std::string& path) {
  const std::string start = fs::path(path).filename().string() + ".partial-";
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_of(path), ignored)) {
    if (!entry.path().filename().string().starts_with(start)) continue;
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
    ::close(fd);
  }
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  remove_stale_partials(path);
  return create_under_lock(path);
}

Result<AtomicFile> AtomicFile::create_under_lock(const std::string& path) {
  const fs::path folder = folder_of(path);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return errno_error(error.value(), "cannot create folder " + folder.string());
  if (fs::is_directory(path, error)) return errno_error(EISDIR, path);

  static std::atomic<int> counter = 0;
  AtomicFile out;
  out.path_ = path;
  while (true) {
    const std::string partial = fmt::format("{}.partial-{}-{}", path, ::getpid(), counter++);
    const int fd = ::open(partial.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return errno_error(errno, "cannot create " + path);
    out.file_ = FileDescriptor(fd, path);
    // Where the filesystem knows no locks this fails, and partial files of killed processes stay.
    ::flock(fd, LOCK_EX);

    struct stat info {};

    if (::fstat(fd, &info) != 0) return errno_error(errno, path);
    // Another process may have taken the file for a stale one before it was locked.
    if (info.st_nlink == 0) continue;
    out.partial_path_ = partial;
    return out;
  }
}

void AtomicFile::start_writeback(int64_t offset, int64_t length) const {
  ::sync_file_range(file_.get(), offset, length, SYNC_FILE_RANGE_WRITE);
}

Status AtomicFile::flush() { return file_.sync(); }

Status AtomicFile::publish() {
  if (::rename(partial_path_.c_str(), path_.c_str()) != 0) {
    return errno_error(errno, "cannot rename to " + path_);
  }
  partial_path_.clear();
  return file_.close();
}

Status AtomicFile::commit(Flush flush) {
  AtomicFile* const self = this;
  return commit_all({&self, 1}, flush);
}

Status AtomicFile::commit_all(std::span<AtomicFile* const> files, Flush flush) {
  if (flush != Flush::kNothing) {
    // All are on their way to the device before the first is waited for.
    for (const AtomicFile* file : files) file->start_writeback(0, 0);
    for (AtomicFile* file : files) MEG_RETURN_IF_ERROR(file->flush());
  }
  for (AtomicFile* file : files) MEG_RETURN_IF_ERROR(file->publish());
  if (flush != Flush::kFilesAndFolder) return Status();
  std::set<fs::path> folders;
  for (const AtomicFile* file : files) folders.insert(folder_of(file->path_));
  for (const fs::path& folder : folders) MEG_RETURN_IF_ERROR(sync_folder(folder));
  return Status();
}

void AtomicFile::discard() {
  if (!partial_path_.empty()) ::unlink(partial_path_.c_str());
  partial_path_.clear();
}

}  // namespace meg
