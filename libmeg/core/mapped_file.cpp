#include "libmeg/core/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "libmeg/core/file_descriptor.h"

namespace meg {

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Result<MappedFile> MappedFile::open(const std::string& path, Access access) {
  MEG_ASSIGN_OR_RETURN(const FileDescriptor file, FileDescriptor::open_for_reading(path));
  MEG_ASSIGN_OR_RETURN(const int64_t size, file.size());
  MappedFile mapped;
  mapped.path_ = path;
  if (size == 0) return mapped;
  const auto length = static_cast<size_t>(size);
  void* address = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return errno_error(errno, path);
  mapped.bytes_ = {static_cast<const std::byte*>(address), length};
  if (access == Access::kSequential) ::madvise(address, length, MADV_SEQUENTIAL);
  if (access == Access::kRandom) ::madvise(address, length, MADV_RANDOM);
  return mapped;
}

void MappedFile::release(size_t offset, size_t length) const {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = (std::min(offset, bytes_.size()) + page - 1) / page * page;
  const size_t end = std::min(offset + length, bytes_.size()) / page * page;
  if (begin < end) {
    ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED);
  }
}

void MappedFile::release(std::span<const std::byte> stretch) const {
  // Linux maps 64 KiB around a touched page, since 6.18 whole folios of up to 2 MiB.
  constexpr size_t kFaultAround = size_t{2} << 20;
  if (stretch.empty()) return;
  const auto offset = static_cast<size_t>(stretch.data() - bytes_.data());
  const size_t before = std::min(offset, kFaultAround);
  release(offset - before, before + stretch.size() + kFaultAround);
}

}  // namespace meg
