// cudaMalloc and its kin: memory of the device and page-locked memory are pages of the host, zero
// until something is copied there and not backed before they are touched.

#include "tests/pretended_device/memory.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include "tests/pretended_device/recorder.h"

namespace meg::pretended {
namespace {

constexpr size_t kMemory = size_t{141} * 1000 * 1000 * 1000;

cudaError_t allocate(void** memory, size_t bytes, MemoryKind kind) {
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return cudaErrorMemoryAllocation;
  MemoryMap::instance().add(pages, bytes, kind);
  *memory = pages;
  return cudaSuccess;
}

cudaError_t release(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const std::optional<size_t> bytes = MemoryMap::instance().remove(memory);
  if (!bytes.has_value()) return cudaErrorInvalidValue;
  ::munmap(memory, *bytes);
  return cudaSuccess;
}

}  // namespace

MemoryMap& MemoryMap::instance() {
  static auto* const map = new MemoryMap;  // LibTorch calls until the process has ended
  return *map;
}

void MemoryMap::add(const void* begin, size_t bytes, MemoryKind kind) {
  const std::lock_guard lock(mutex_);
  pieces_[static_cast<const char*>(begin)] = {bytes, kind};
}

std::optional<size_t> MemoryMap::remove(const void* begin) {
  const std::lock_guard lock(mutex_);
  const auto found = pieces_.find(static_cast<const char*>(begin));
  if (found == pieces_.end()) return std::nullopt;
  const size_t bytes = found->second.bytes;
  pieces_.erase(found);
  return bytes;
}

std::optional<MemoryKind> MemoryMap::kind_of(const void* address) {
  const std::lock_guard lock(mutex_);
  const auto* const place = static_cast<const char*>(address);
  auto after = pieces_.upper_bound(place);
  if (after == pieces_.begin()) return std::nullopt;
  const auto& [begin, piece] = *--after;
  if (static_cast<size_t>(place - begin) >= piece.bytes) return std::nullopt;
  return piece.kind;
}

}  // namespace meg::pretended

using meg::pretended::MemoryKind;
using meg::pretended::MemoryMap;
using meg::pretended::Recorder;

extern "C" {

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  Recorder::instance().add_allocated(bytes);
  return meg::pretended::allocate(memory, bytes, MemoryKind::kDevice);
}

cudaError_t cudaFree(void* memory) { return meg::pretended::release(memory); }

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned int) {
  return meg::pretended::allocate(memory, bytes, MemoryKind::kPinned);
}

cudaError_t cudaFreeHost(void* memory) { return meg::pretended::release(memory); }

cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned int) {
  MemoryMap::instance().add(memory, bytes, MemoryKind::kPinned);
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* memory) {
  const bool known = MemoryMap::instance().remove(memory).has_value();
  return known ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = meg::pretended::kMemory;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  *attributes = {};
  const std::optional<MemoryKind> kind = MemoryMap::instance().kind_of(address);
  if (!kind.has_value()) return cudaSuccess;
  const bool on_device = *kind == MemoryKind::kDevice;
  attributes->type = on_device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  attributes->devicePointer = const_cast<void*>(address);
  attributes->hostPointer = on_device ? nullptr : const_cast<void*>(address);
  return cudaSuccess;
}

}  // extern "C"
