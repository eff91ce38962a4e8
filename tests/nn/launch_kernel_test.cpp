// The one way to launch a kernel, with a device of two that only this file knows.

#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "libmeg/kernels/cuda_device.h"
#include "libmeg/nn/operators/kernel_call.h"

namespace meg::nn {
namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;

c10::DeviceIndex current_device = 0;
c10::StreamId current_streams[] = {10, 11};

struct TwoDevices final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }

  c10::Device getDevice() const override { return {kType, current_device}; }

  void setDevice(c10::Device device) const override { current_device = device.index(); }

  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current_device = device.index();
  }

  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_streams[device.index()]);
  }

  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::StreamId before = std::exchange(current_streams[stream.device_index()], stream.id());
    return c10::Stream(c10::Stream::UNSAFE, stream.device(), before);
  }

  c10::DeviceIndex deviceCount() const noexcept override { return 2; }

  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(stream.id());
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, TwoDevices)

TEST(LaunchKernelTest, LaunchesOnTheTensorsDeviceAndItsCurrentStream) {
  const at::Device second(kType, 1);
  for (const c10::StreamId stream : {11, 12}) {
    current_streams[1] = stream;
    launch_kernel("kernel", second, [&](CUstream_st* found) {
      EXPECT_EQ(current_device, 1);
      EXPECT_EQ(reinterpret_cast<c10::StreamId>(found), stream);
      return 0;
    });
    EXPECT_EQ(current_device, 0);
  }
}

TEST(LaunchKernelTest, SaysWhatWasRefusedAndWhy) {
  const auto said = [](int code) -> std::string {
    try {
      launch_kernel("kernel", at::Device(kType, 1), [&](CUstream_st*) { return code; });
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "";
  };
  EXPECT_EQ(said(0), "");
  EXPECT_EQ(said(9), "kernel: the CUDA runtime refused the launch with error 9");
  EXPECT_EQ(said(kernels::kBuiltWithoutCuda), "kernel: libmeg was built without CUDA kernels");
  EXPECT_EQ(current_device, 0);
}

}  // namespace
}  // namespace meg::nn
