#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace meg::nn {

/// What a function queues on a GPU, recorded once and queued again by one call: a GPU runs hundreds
/// of small kernels in less time than a host takes to queue them one by one. LibTorch's exceptions
/// fly.
class DeviceGraph {
 public:
  /// Where recorded work keeps its tensors: memory that LibTorch gives to nothing else while any of
  /// its graphs is there. Their launches must not overlap.
  class Memory;

  /// nullptr where nothing can be recorded, as in a build without CUDA.
  static std::shared_ptr<Memory> create_memory(at::Device device);

  /// Runs `body` twice on a stream of its own: as it is, so that what is created at first use is
  /// there, and recorded. The second time, tensors that it creates lie in the memory. What it reads
  /// of others must stay where it is. nullptr where something in it cannot be recorded: waiting for
  /// the GPU, for example.
  static std::unique_ptr<DeviceGraph> record(std::shared_ptr<Memory> memory,
                                             const std::function<void()>& body);

  virtual ~DeviceGraph() = default;

  /// Queues it on the device's current stream.
  virtual void launch() const = 0;
};

}  // namespace meg::nn
