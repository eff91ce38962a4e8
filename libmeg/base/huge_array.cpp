#include "libmeg/base/huge_array.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

namespace meg {

HugePages::HugePages(size_t bytes) {
  // One huge page more than asked for, so that an aligned start lies inside. What is never touched
  // costs addresses, not memory.
  constexpr size_t kHugePage = size_t{2} << 20;
  mapping_bytes_ = bytes + kHugePage;
  mapping_ =
      ::mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  const size_t past_border = reinterpret_cast<uintptr_t>(mapping_) % kHugePage;
  data_ = static_cast<char*>(mapping_) + (kHugePage - past_border) % kHugePage;
  // A wish: where the system has no huge pages, the array is slower and otherwise the same.
  ::madvise(data_, bytes, MADV_HUGEPAGE);
}

HugePages::HugePages(HugePages&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(other.mapping_bytes_),
      data_(other.data_) {}

HugePages::~HugePages() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapping_bytes_);
}

}  // namespace meg
