#include "libmeg/io/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

#include "libmeg/base/fork_mutex.h"

namespace meg::io {

/// An entry of the list of all mapped files. Signal handlers walk the list while others change it:
/// entries are never freed, only used again, and `path` changes only while `begin` is null. A
/// handler may take no lock and call no allocator, which rules out any container.
struct MappedRange {
  std::atomic<const std::byte*> begin = nullptr;
  std::atomic<const std::byte*> end = nullptr;
  std::string path;
  MappedRange* next = nullptr;       // in the list of all
  MappedRange* next_free = nullptr;  // guarded by fork_mutex()
};

namespace {

MappedRange* free_ranges = nullptr;
std::atomic<MappedRange*> all_ranges = nullptr;
static_assert(std::atomic<MappedRange*>::is_always_lock_free);

MappedRange* take_range() {
  if (free_ranges != nullptr) return std::exchange(free_ranges, free_ranges->next_free);
  auto* range = new MappedRange;
  range->next = all_ranges;
  all_ranges = range;
  return range;
}

MappedRange* add_range(std::span<const std::byte> bytes, const std::string& path) {
  const std::lock_guard lock(fork_mutex());
  MappedRange* range = take_range();
  // `begin` last: it makes the entry visible to handlers, which read path and end after it.
  range->path = path;
  range->end = bytes.data() + bytes.size();
  range->begin = bytes.data();
  return range;
}

void remove_range(MappedRange* range) {
  const std::lock_guard lock(fork_mutex());
  range->begin = nullptr;
  range->next_free = std::exchange(free_ranges, range);
}

}  // namespace

const char* mapped_path_at(const void* address) {
  for (const MappedRange* range = all_ranges; range != nullptr; range = range->next) {
    const std::byte* begin = range->begin;
    if (begin != nullptr && address >= begin && address < range->end) return range->path.c_str();
  }
  return nullptr;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})),
      path_(std::move(other.path_)),
      range_(std::exchange(other.range_, nullptr)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(path_, other.path_);
  std::swap(range_, other.range_);
  return *this;
}

MappedFile::~MappedFile() {
  // Keep this order: a handler must not name this file for an address that the system gave to
  // another.
  if (range_ != nullptr) remove_range(range_);
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Result<MappedFile> MappedFile::open(const std::string& path, Access access) {
  // The mapping outlives the descriptor, which is closed on return: mapped files do not count
  // against the limit of open files.
  MEG_ASSIGN_OR_RETURN(const FileDescriptor file, FileDescriptor::open_regular(path));
  return map(file, access);
}

Result<MappedFile> MappedFile::map(const FileDescriptor& file, Access access) {
  MEG_ASSIGN_OR_RETURN(const int64_t size, file.size());
  MappedFile mapped;
  mapped.path_ = file.path();
  if (size == 0) return mapped;  // mmap() refuses an empty range.
  const auto length = static_cast<size_t>(size);
  void* address = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return errno_error(errno, file.path());
  mapped.bytes_ = {static_cast<const std::byte*>(address), length};
  mapped.range_ = add_range(mapped.bytes_, mapped.path_);
  // Hints: whether they are taken changes no byte, so errors do not matter.
  if (access == Access::kSequential) ::madvise(address, length, MADV_SEQUENTIAL);
  if (access == Access::kRandom) ::madvise(address, length, MADV_RANDOM);
  return mapped;
}

void MappedFile::release(size_t offset, size_t length) const {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  // Inwards to whole pages: those at the ends may hold what others still read.
  const size_t begin = (std::min(offset, bytes_.size()) + page - 1) / page * page;
  const size_t end = std::min(offset + length, bytes_.size()) / page * page;
  if (begin < end) {
    // On a shared file mapping this drops page table entries only; the next access finds the page
    // in the page cache or reads it again.
    ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED);
  }
}

void MappedFile::release(std::span<const std::byte> range) const {
  // Linux maps 64 KiB around a touched page, since 6.18 whole folios of up to 2 MiB.
  constexpr size_t kFaultAround = size_t{2} << 20;
  if (range.empty()) return;
  const auto offset = static_cast<size_t>(range.data() - bytes_.data());
  const size_t before = std::min(offset, kFaultAround);
  release(offset - before, before + range.size() + kFaultAround);
}

MappedPart::MappedPart(MappedPart&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})),
      pages_(std::exchange(other.pages_, {})),
      range_(std::exchange(other.range_, nullptr)) {}

MappedPart& MappedPart::operator=(MappedPart&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(pages_, other.pages_);
  std::swap(range_, other.range_);
  return *this;
}

MappedPart::~MappedPart() {
  if (range_ != nullptr) remove_range(range_);
  if (!pages_.empty()) ::munmap(const_cast<std::byte*>(pages_.data()), pages_.size());
}

Result<MappedPart> MappedPart::map(const FileDescriptor& file, uint64_t offset, size_t length) {
  MappedPart mapped;
  if (length == 0) return mapped;
  MEG_ASSIGN_OR_RETURN(const int64_t size, file.size());
  if (static_cast<uint64_t>(size) < offset + length) {
    return make_error(StatusCode::kCorruption,
                      "{}: byte {}: the file was truncated: expected {} bytes, found {}",
                      file.path(), offset, offset + length, size);
  }
  const size_t before = offset % static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  void* address = ::mmap(nullptr, before + length, PROT_READ, MAP_SHARED, file.get(),
                         static_cast<off_t>(offset - before));
  if (address == MAP_FAILED) return errno_error(errno, file.path());
  mapped.pages_ = {static_cast<const std::byte*>(address), before + length};
  mapped.bytes_ = mapped.pages_.subspan(before);
  mapped.range_ = add_range(mapped.pages_, file.path());
#ifdef MADV_POPULATE_READ
  // One call instead of a fault for every few pages; older systems map them when they are touched.
  if (::madvise(address, mapped.pages_.size(), MADV_POPULATE_READ) == 0) return mapped;
#endif
  ::madvise(address, mapped.pages_.size(), MADV_WILLNEED);
  return mapped;
}

}  // namespace meg::io
