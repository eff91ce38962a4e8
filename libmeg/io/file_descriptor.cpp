#include "libmeg/io/file_descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace meg::io {
namespace {

/// Runs `transfer(done)` until it has moved `count` bytes, met the end or failed.
template <class Transfer>
Result<size_t> transfer_all(size_t count, const std::string& path, const Transfer& transfer) {
  size_t done = 0;
  while (done < count) {
    const ssize_t moved = transfer(done);
    if (moved == 0) break;
    if (moved < 0) {
      if (errno == EINTR) continue;
      return errno_error(errno, path);
    }
    done += static_cast<size_t>(moved);
  }
  return done;
}

Status expect_all(const Result<size_t>& moved, size_t count, const std::string& path) {
  if (!moved.has_value()) return moved.error();
  if (*moved == count) return Status();
  return make_error(StatusCode::kIoError, "{}: wrote {} of {} bytes", path, *moved, count);
}

/// Whatever it is, a folder excepted. O_NONBLOCK, as opening a pipe would wait for its writer, and
/// what kind of file it is must be asked of the open file: between stat() and open() the path may
/// change its meaning. A folder opens like a file and fails at the first read, so it is refused
/// here.
Result<FileDescriptor> open_at_once(const std::string& path, struct stat* info) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno_error(errno, path);
  FileDescriptor file(fd, path);
  if (::fstat(fd, info) != 0) return errno_error(errno, path);
  if (S_ISDIR(info->st_mode)) return errno_error(EISDIR, path);
  return file;
}

}  // namespace

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (is_open()) ::close(fd_);
}

Result<FileDescriptor> FileDescriptor::open_for_reading(const std::string& path) {
  struct stat info {};

  MEG_ASSIGN_OR_RETURN(FileDescriptor file, open_at_once(path, &info));
  // Only opening must not wait; reading must, or a pipe without bytes would look like an error.
  const int flags = ::fcntl(file.get(), F_GETFL);
  if (flags < 0 || ::fcntl(file.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return errno_error(errno, path);
  }
  return file;
}

Result<FileDescriptor> FileDescriptor::open_regular(const std::string& path) {
  struct stat info {};

  MEG_ASSIGN_OR_RETURN(FileDescriptor file, open_at_once(path, &info));
  if (!S_ISREG(info.st_mode)) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected a regular file, found a pipe or a device", path);
  }
  // O_NONBLOCK stays: it means nothing for regular files.
  return file;
}

bool FileDescriptor::may_have_holes() const {
  struct stat info {};

  return ::fstat(fd_, &info) == 0 && info.st_blocks < info.st_size / 512;
}

Result<int64_t> FileDescriptor::size() const {
  struct stat info {};

  if (::fstat(fd_, &info) != 0) return errno_error(errno, path_);
  return static_cast<int64_t>(info.st_size);
}

Result<size_t> FileDescriptor::read(std::span<std::byte> into) const {
  return transfer_all(into.size(), path_, [&](size_t done) {
    return ::read(fd_, into.data() + done, into.size() - done);
  });
}

Result<size_t> FileDescriptor::read_some(std::span<std::byte> into) const {
  while (true) {
    const ssize_t got = ::read(fd_, into.data(), into.size());
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) return errno_error(errno, path_);
  }
}

Result<size_t> FileDescriptor::read_at(int64_t offset, std::span<std::byte> into) const {
  return transfer_all(into.size(), path_, [&](size_t done) {
    return ::pread(fd_, into.data() + done, into.size() - done,
                   offset + static_cast<int64_t>(done));
  });
}

Status FileDescriptor::read_exactly_at(uint64_t offset, std::span<std::byte> into) const {
  MEG_ASSIGN_OR_RETURN(const size_t found, read_at(static_cast<int64_t>(offset), into));
  if (found == into.size()) return Status();
  return make_error(StatusCode::kCorruption, "{}: byte {}: expected {} bytes, found {}", path_,
                    offset, into.size(), found);
}

Status FileDescriptor::write(std::span<const std::byte> bytes) const {
  const auto moved = transfer_all(bytes.size(), path_, [&](size_t done) {
    return ::write(fd_, bytes.data() + done, bytes.size() - done);
  });
  return expect_all(moved, bytes.size(), path_);
}

Status FileDescriptor::write_at(int64_t offset, std::span<const std::byte> bytes) const {
  const auto moved = transfer_all(bytes.size(), path_, [&](size_t done) {
    return ::pwrite(fd_, bytes.data() + done, bytes.size() - done,
                    offset + static_cast<int64_t>(done));
  });
  return expect_all(moved, bytes.size(), path_);
}

Status FileDescriptor::sync() const {
  if (::fsync(fd_) != 0) return errno_error(errno, path_);
  return Status();
}

Status FileDescriptor::close() {
  // Never close twice, not even after EINTR: Linux has let the descriptor go by then, and another
  // thread may already own its number.
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && ::close(fd) != 0) return errno_error(errno, path_);
  return Status();
}

int64_t open_file_limit() {
  rlimit limit{};
  // The limit may be RLIM_INFINITY, which is no count to calculate with.
  constexpr rlim_t kMost = 1 << 20;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMost;
  return static_cast<int64_t>(std::min(limit.rlim_cur, kMost));
}

}  // namespace meg::io
