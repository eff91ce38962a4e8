// cudaMemcpy and cudaMemset: done at once, as the memory is the host's.

#include <cuda_runtime_api.h>

#include <cstring>

#include "tests/pretended_device/memory.h"
#include "tests/pretended_device/recorder.h"

namespace meg::pretended {
namespace {

bool is_on_device(const void* address) {
  return MemoryMap::instance().kind_of(address) == MemoryKind::kDevice;
}

bool is_pageable(const void* address) {
  return !MemoryMap::instance().kind_of(address).has_value();
}

/// Whether bytes come from the device to the host.
bool copy(void* target, const void* source, size_t bytes, const void* stream) {
  Recorder& recorder = Recorder::instance();
  recorder.add_copy(stream);
  const bool from_device = is_on_device(source);
  const bool into_device = is_on_device(target);
  if (into_device && !from_device) recorder.add_to_device(bytes);
  if (from_device && !into_device) recorder.add_to_host(bytes);
  std::memmove(target, source, bytes);
  return from_device && !into_device;
}

}  // namespace
}  // namespace meg::pretended

using meg::pretended::Recorder;

extern "C" {

cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  const bool to_host = meg::pretended::copy(target, source, bytes, stream);
  // The driver returns from a copy into memory that is not page-locked when it is done.
  if (to_host && meg::pretended::is_pageable(target)) {
    Recorder::instance().wait_for(Recorder::instance().last_of(stream));
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes, cudaMemcpyKind) {
  meg::pretended::copy(target, source, bytes, /*stream=*/nullptr);
  Recorder::instance().wait_for(Recorder::instance().last());
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  Recorder::instance().add_fill(stream);
  std::memset(memory, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, /*stream=*/nullptr);
}

}  // extern "C"
