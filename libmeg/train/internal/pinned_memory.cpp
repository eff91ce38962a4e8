#include "libmeg/train/internal/pinned_memory.h"

#include <ATen/ATen.h>

#include <exception>
#include <map>
#include <memory>
#include <mutex>

namespace meg::train {
namespace {

/// Tensors that own what was handed out, by its address.
struct Owned {
  std::mutex mutex;
  std::map<void*, at::Tensor> tensors;
};

void* allocate(Owned& owned, size_t bytes) {
  try {
    const at::Tensor tensor = at::empty({static_cast<int64_t>(bytes)},
                                        at::TensorOptions().dtype(at::kByte).pinned_memory(true));
    const std::lock_guard lock(owned.mutex);
    void* const memory = tensor.data_ptr();
    owned.tensors[memory] = tensor;
    return memory;
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

samples::BatchMemory pinned_memory() {
  const auto owned = std::make_shared<Owned>();
  return {.allocate = [owned](size_t bytes) { return allocate(*owned, bytes); },
          .release =
              [owned](void* memory, size_t) {
                const std::lock_guard lock(owned->mutex);
                owned->tensors.erase(memory);
              }};
}

}  // namespace meg::train
