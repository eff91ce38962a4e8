// Stands for device_graph.cpp in a build without CUDA.

#include "libmeg/nn/internal/device_graph.h"

namespace meg::nn {

class DeviceGraph::Memory {};

std::shared_ptr<DeviceGraph::Memory> DeviceGraph::create_memory(at::Device) { return nullptr; }

std::unique_ptr<DeviceGraph> DeviceGraph::record(std::shared_ptr<Memory>,
                                                 const std::function<void()>&) {
  return nullptr;
}

}  // namespace meg::nn
