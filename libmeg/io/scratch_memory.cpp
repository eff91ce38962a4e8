#include "libmeg/io/scratch_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace meg::io {
namespace {

/// -1 with errno.
int open_without_name(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const int fd = ::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
  // These say that the file system, or the kernel, has no such files.
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  std::string name = path + ".XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

ScratchMemory::ScratchMemory(ScratchMemory&& other) noexcept
    : file_(std::move(other.file_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

ScratchMemory& ScratchMemory::operator=(ScratchMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

ScratchMemory::~ScratchMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<ScratchMemory> ScratchMemory::create(const std::string& path) {
  const int fd = open_without_name(path);
  if (fd < 0) return errno_error(errno, path);
  ScratchMemory memory;
  memory.file_ = FileDescriptor(fd, path);
  return memory;
}

Status ScratchMemory::grow(size_t bytes) {
  if (bytes <= size_) return {};
  int error = 0;
  do {
    error = ::posix_fallocate(file_.get(), 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  if (error != 0) return errno_error(error, file_.path());
  void* const data =
      data_ == nullptr ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0)
                       : ::mremap(data_, size_, bytes, MREMAP_MAYMOVE);
  if (data == MAP_FAILED) return errno_error(errno, file_.path());
  data_ = data;
  size_ = bytes;
  return {};
}

}  // namespace meg::io
