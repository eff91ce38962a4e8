#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <cstdint>

#include "libmeg/kernels/cpu/parallel_for.h"
#include "libmeg/kernels/float_type.h"

struct CUstream_st;

namespace meg::nn {

/// A tensor's dtype as the kernels name it: fp32, fp16 or bf16.
kernels::FloatType float_type(const at::Tensor& tensor);

/// The stream on which LibTorch queues this thread's work for a GPU.
CUstream_st* current_stream(at::Device device);

/// Throws as LibTorch does if a launch returned an error code of the CUDA runtime.
void check_launch(int code, const char* kernel);

/// Launches a kernel on the device of its tensors, in order with LibTorch's own work there. launch:
/// called with the stream, returns the launch's code.
template <class Launch>
void launch_kernel(const char* kernel, at::Device device, Launch launch) {
  const c10::DeviceGuard guard(device);
  check_launch(launch(current_stream(device)), kernel);
}

/// Minimum number of rows of a hidden dimension per thread, for kernels that do little work per
/// row.
inline constexpr int64_t kRowGrain = 4;

/// Runs a kernel over independent rows or other units, on the device of its tensors: on a GPU like
/// launch_kernel(), on a CPU divided over threads with at least `grain` units each. run: called
/// with the first unit and the end of a share.
template <class Launch, class Run>
void run_kernel(const char* kernel, at::Device device, int64_t units, int64_t grain, Launch launch,
                Run run) {
  if (device.is_cuda()) {
    launch_kernel(kernel, device, launch);
  } else {
    kernels::parallel_for(units, grain, run);
  }
}

}  // namespace meg::nn
