#include "libmeg/io/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "libmeg/base/thread_pool.h"
#include "libmeg/io/internal/made_folders.h"
#include "libmeg/io/internal/partial_path.h"

// The life of an output: created under a partial name and locked, written, flushed, renamed to its
// final name, closed. partial_path_ is not empty exactly while there is a partial file that this
// object may still flush, rename or remove; files that are written straight never have one, so
// flushing, renaming and discarding them does nothing.
//
// The lock (flock) says to other processes that the writer lives. The system drops it with the
// process, also after SIGKILL, so a partial file without a lock is nobody's.
// docs/decisions/07-outputs-by-rename.md has the reasons.

namespace meg::io {
namespace {

namespace fs = std::filesystem;

/// Threads that flush at once in one flush_all(). With 16 of them, 64 small files took 8 to 40 ms
/// instead of 650 to 700 ms one after another (docs/performance.md, "Blends of many small
/// datasets").
constexpr int kMaxFlushes = 16;

/// Where the file that `path` names is, or will be, once symbolic links are followed.
Result<std::string> follow_links(const std::string& path) {
  constexpr int kMaxLinks = 40;  // as the system has it
  fs::path at = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code no_link;
    const fs::path named = fs::read_symlink(at, no_link);
    if (no_link) return at.string();
    at = at.parent_path() / named;
  }
  return errno_error(ELOOP, path);
}

/// The standard stream that goes to the file at `path`, or -1. Such a file must share the stream's
/// position, and cannot be replaced.
int standard_stream_at(const struct stat& info) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat stream {};

    if (::fstat(fd, &stream) != 0) continue;
    if (stream.st_dev == info.st_dev && stream.st_ino == info.st_ino) return fd;
  }
  return -1;
}

/// The file that is to be written straight, or one that is not open.
Result<FileDescriptor> open_straight(const std::string& path) {
  struct stat info {};

  if (::stat(path.c_str(), &info) != 0) return FileDescriptor();
  const int stream = standard_stream_at(info);
  if (stream < 0 && S_ISREG(info.st_mode)) return FileDescriptor();
  // A duplicate of the stream shares its position, so that what the program prints and what goes to
  // the file follow each other. No O_CREAT and no O_TRUNC: this is a device, a pipe, or a file that
  // others write to as well. O_NOCTTY keeps a terminal from becoming the controlling one.
  const int fd = stream < 0 ? ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY)
                            : ::fcntl(stream, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return errno_error(errno, "cannot write " + path);
  return FileDescriptor(fd, path);
}

Result<FileDescriptor> open_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno_error(errno, folder);
  return FileDescriptor(fd, folder);
}

}  // namespace

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : file_(std::move(other.file_)),
      path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      partial_path_(std::exchange(other.partial_path_, {})),
      is_kept_(other.is_kept_) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  // Swapped, not moved: what this object had goes to `other`, whose destructor removes a partial
  // file of it as that of any output that was given up.
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  std::swap(target_, other.target_);
  std::swap(partial_path_, other.partial_path_);
  std::swap(is_kept_, other.is_kept_);
  return *this;
}

AtomicFile::~AtomicFile() {
  if (!is_kept_) discard();
}

void AtomicFile::remove_stale_partials(const std::string& path) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_above(path), ignored)) {
    if (!is_partial_name(entry.path().filename().string(), path)) continue;
    // O_NONBLOCK: the name may belong to a pipe, which would wait for a writer; O_NOFOLLOW: to a
    // link that somebody has put there.
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    // A lock that can be taken means that the writer is gone.
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
    ::close(fd);
  }
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return errno_error(EISDIR, path);
  MEG_ASSIGN_OR_RETURN(FileDescriptor straight, open_straight(path));
  if (!straight.is_open()) return create_partial(path, StalePartials::kRemove);
  AtomicFile out;
  out.path_ = path;
  out.file_ = std::move(straight);
  return out;
}

Status AtomicFile::check_regular(const std::string& path) {
  std::error_code ignored;
  const fs::file_status found = fs::status(path, ignored);
  if (fs::is_directory(found)) return errno_error(EISDIR, path);
  // A rename would put a plain file in the place of a device or a pipe.
  if (fs::exists(found) && !fs::is_regular_file(found)) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected a regular file, found a pipe or a device", path);
  }
  return Status();
}

Result<AtomicFile> AtomicFile::create_regular(const std::string& path) {
  MEG_RETURN_IF_ERROR(check_regular(path));
  return create_partial(path, StalePartials::kRemove);
}

Result<AtomicFile> AtomicFile::create_under_lock(const std::string& path) {
  MEG_RETURN_IF_ERROR(check_regular(path));
  return create_partial(path, StalePartials::kKeep);
}

/// One without a partial file yet, in a folder that is there.
Result<AtomicFile> AtomicFile::aimed_at(const std::string& path) {
  AtomicFile out;
  out.path_ = path;
  MEG_ASSIGN_OR_RETURN(out.target_, follow_links(path));
  MEG_RETURN_IF_ERROR(make_folders(folder_above(out.target_)));
  return out;
}

Result<AtomicFile> AtomicFile::open_kept(const std::string& path, const std::string& suffix) {
  MEG_RETURN_IF_ERROR(check_regular(path));
  MEG_ASSIGN_OR_RETURN(AtomicFile out, aimed_at(path));
  const std::string partial = out.target_ + suffix;
  MEG_RETURN_IF_ERROR(check_regular(partial));
  // Neither O_EXCL nor O_TRUNC: the content that an earlier process left is what its successor goes
  // on with.
  const int fd = ::open(partial.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) return errno_error(errno, "cannot create " + partial);
  out.file_ = FileDescriptor(fd, path);
  out.partial_path_ = partial;
  out.is_kept_ = true;
  return out;
}

Status AtomicFile::truncate(int64_t size) const {
  MEG_ASSIGN_OR_RETURN(const int64_t found, file_.size());
  if (found < size) {
    return make_error(StatusCode::kCorruption, "{}: expected at least {} bytes, found {}",
                      partial_path_, size, found);
  }
  if (::ftruncate(file_.get(), size) == 0) return Status();
  return errno_error(errno, "cannot cut " + partial_path_);
}

Result<AtomicFile> AtomicFile::create_partial(const std::string& path, StalePartials stale) {
  MEG_ASSIGN_OR_RETURN(AtomicFile out, aimed_at(path));
  if (stale == StalePartials::kRemove) remove_stale_partials(out.target_);
  while (true) {
    const std::string partial = next_partial_path(out.target_);
    const int fd = ::open(partial.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) continue;
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
  // This is a hint: where the file system knows no such call, the flush of commit() has more to do.
  ::sync_file_range(file_.get(), offset, length, SYNC_FILE_RANGE_WRITE);
}

/// A pipe or a device cannot be flushed (fsync says EINVAL), so what is written straight is not.
Status AtomicFile::flush() { return partial_path_.empty() ? Status() : file_.sync(); }

Status AtomicFile::remove_older() const {
  if (partial_path_.empty() || ::unlink(target_.c_str()) == 0 || errno == ENOENT) return Status();
  return errno_error(errno, "cannot replace " + path_);
}

Status AtomicFile::publish() {
  if (partial_path_.empty()) return file_.close();
  // The descriptor, and with it the lock, is held until the name has changed: otherwise a process
  // that removes stale files could take this one in between.
  if (::rename(partial_path_.c_str(), target_.c_str()) != 0) {
    return errno_error(errno, "cannot rename to " + path_);
  }
  // Clear it before close(), which may fail: the destructor must not remove what now has the final
  // name.
  partial_path_.clear();
  return file_.close();
}

Status AtomicFile::commit(Flush flush) {
  AtomicFile* const self = this;
  return commit_all({&self, 1}, flush);
}

Status AtomicFile::flush_all(std::span<AtomicFile* const> files) {
  // All are on their way to the device before the first is waited for.
  for (const AtomicFile* file : files) file->start_writeback(0, 0);
  std::vector<Status> statuses(files.size());
  // Files that are flushed one after another wait for a commit of the journal each.
  ThreadPool pool(std::min(static_cast<int>(files.size()), kMaxFlushes));
  for (size_t i = 0; i < files.size(); ++i) {
    pool.submit([&, i] { statuses[i] = files[i]->flush(); });
  }
  pool.wait();
  for (Status& status : statuses) MEG_RETURN_IF_ERROR(std::move(status));
  return Status();
}

/// The killed process may have stopped anywhere in commit_all(). What it renamed has lost its
/// partial name and counts as done; all sizes are checked before the first rename, so that a
/// damaged set stays as it was.
Status AtomicFile::publish_kept(std::span<const Kept> files) {
  std::vector<AtomicFile> open;
  for (const Kept& file : files) {
    MEG_ASSIGN_OR_RETURN(const std::string target, follow_links(file.path));
    std::error_code ignored;
    // Renaming is the only thing that takes the partial name away.
    const bool is_done = !fs::exists(target + file.suffix, ignored);
    const std::string found = is_done ? target : target + file.suffix;
    std::error_code error;
    const auto size = fs::file_size(found, error);
    if (error) return errno_error(error.value(), found);
    if (size != static_cast<uintmax_t>(file.size)) {
      return make_error(StatusCode::kCorruption, "{}: expected {} bytes, found {}", found,
                        file.size, size);
    }
    if (is_done) continue;
    MEG_ASSIGN_OR_RETURN(open.emplace_back(), open_kept(file.path, file.suffix));
  }
  std::vector<AtomicFile*> pointers;
  for (AtomicFile& file : open) pointers.push_back(&file);
  return commit_all(pointers);
}

Status AtomicFile::commit_all(std::span<AtomicFile* const> files, Flush flush) {
  if (flush != Flush::kNothing) MEG_RETURN_IF_ERROR(flush_all(files));
  // The order is what makes a set of files appear whole: 1. contents to the device, 2. the folders
  // are opened, 3. older files but the first go, 4. the folders are flushed, 5. new files are
  // renamed in order, 6. the folders are flushed again. Without 4 a crash of the machine could
  // bring an old file back beside a new one, as the device may see renames and removals in any
  // order.
  // What can fail does so before a file is in place.
  std::map<std::string, FileDescriptor> folders;
  for (const AtomicFile* file : files) {
    if (flush != Flush::kFilesAndFolder || file->partial_path_.empty()) continue;
    const std::string folder = folder_above(file->target_);
    MEG_ASSIGN_OR_RETURN(folders[folder], open_folder(folder));
  }
  const auto sync_folders = [&folders]() -> Status {
    for (const auto& [name, folder] : folders) MEG_RETURN_IF_ERROR(folder.sync());
    return Status();
  };
  if (files.size() > 1) {
    // The first file's older version may stay: by then it stands alone, and the rename replaces it
    // in one step.
    const auto later = files.subspan(1);  // clang 14 has no std::views::reverse by libstdc++
    for (auto file = later.rbegin(); file != later.rend(); ++file) {
      MEG_RETURN_IF_ERROR((*file)->remove_older());
    }
    MEG_RETURN_IF_ERROR(sync_folders());
  }
  for (AtomicFile* file : files) MEG_RETURN_IF_ERROR(file->publish());
  return sync_folders();
}

void AtomicFile::discard() {
  if (!partial_path_.empty()) ::unlink(partial_path_.c_str());
  partial_path_.clear();
  if (!target_.empty()) remove_made_folders(folder_above(target_));
}

}  // namespace meg::io
