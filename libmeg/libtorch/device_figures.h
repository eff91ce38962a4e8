#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace meg::libtorch {

/// Such as "NVIDIA H200"; empty for CPUs.
std::string device_name(at::Device device);

/// The unique id of a GPU, or of a part of one, as nvidia-smi prints it after "GPU-"; empty for
/// CPUs.
std::string device_identity(at::Device device);

/// Bytes of memory that this process had at most so far.
int64_t peak_resident_bytes();

/// Waits until a GPU has finished all queued work; does nothing on CPUs.
void synchronize(at::Device device);

}  // namespace meg::libtorch
