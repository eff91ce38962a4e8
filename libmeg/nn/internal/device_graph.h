#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace meg::nn {

/// The work that a function queues on a GPU, recorded once and queued again with one call: a GPU
/// runs hundreds of small kernels in less time than a host takes to queue them one by one. Throws
/// LibTorch's exceptions.
class DeviceGraph {
 public:
  /// The memory of recorded tensors, which LibTorch does not use for anything else while any of its
  /// graphs exists. Their launches must not overlap.
  class Memory;

  /// nullptr if nothing can be recorded, as in a build without CUDA.
  static std::shared_ptr<Memory> create_memory(at::Device device);

  /// Runs `body` twice on a separate stream: first normally, so that everything that is created on
  /// first use exists, and then recorded. The second time, tensors that it creates are allocated in
  /// `memory`. Other tensors that it reads must stay where they are. nullptr if something in it
  /// cannot be recorded, such as waiting for the GPU.
  static std::unique_ptr<DeviceGraph> record(std::shared_ptr<Memory> memory,
                                             const std::function<void()>& body);

  virtual ~DeviceGraph() = default;

  /// Queues the recorded work on the device's current stream.
  virtual void launch() const = 0;
};

}  // namespace meg::nn
