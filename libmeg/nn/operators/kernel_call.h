#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <cstdint>

#include "libmeg/kernels/cpu/parallel_for.h"
#include "libmeg/kernels/float_type.h"

struct CUstream_st;

namespace meg::nn {

/// What the kernels call a tensor's type: fp32, fp16 or bf16.
kernels::FloatType float_type(const at::Tensor& tensor);

/// The stream that LibTorch queues work of a GPU on, for this thread.
CUstream_st* current_stream(at::Device device);

/// Throws as LibTorch does where a launch returned another code of the CUDA runtime than 0.
void check_launch(int code, const char* kernel);

/// How every kernel is launched: where its tensors lie, in the order of LibTorch's own work there.
/// launch: callable with the stream, returns the launch's code.
template <class Launch>
void launch_kernel(const char* kernel, at::Device device, Launch launch) {
  const c10::DeviceGuard guard(device);
  check_launch(launch(current_stream(device)), kernel);
}

/// Rows of a hidden dimension that a thread takes at least, of kernels that do little with each.
inline constexpr int64_t kRowGrain = 4;

/// A kernel over rows or other units of which none needs another, where its tensors lie: on a GPU
/// as launch_kernel(), on a CPU shared out among threads that take at least `grain` units each.
/// run: callable with the first unit and the end of a share.
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
