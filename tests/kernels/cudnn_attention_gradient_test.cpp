// Whether cuDNN takes the gradient of attention as libmeg describes it, on a GPU that is not here:
// cuDNN answers that from a description of the device.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "libmeg/kernels/cudnn/attention_gradient.h"

namespace meg::kernels {
namespace {

constexpr int kHopper = 90;

/// An H200 as cuDNN describes one.
constexpr std::string_view kH200 = R"({
  "cudaDeviceId": 0, "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000,
  "isTccDriver": 0, "l2CacheSize": 52428800, "maxBlockSize": [1024, 1024, 64], "maxCtasPerSM": 32,
  "maxGridSize": [2147483647, 65535, 65535], "maxRegistersPerSM": 65536,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "memClockRateKHz": 3201000,
  "multiProcessorCount": 132, "pciDeviceId": 9013, "regsPerBlock": 65536,
  "reservedSharedMemoryPerBlock": 1024, "smClockRateKHz": 1980000, "supportCoopLaunch": 1,
  "totalGlobalMem": 150000000000, "warpSize": 32})";

class CudnnAttentionGradientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // cuDNN asks whether there is a driver's library, which a machine without a GPU lacks: the
    // toolkit's stand-in for linking has its name.
    if (::dlopen("libcuda.so.1", RTLD_NOW) == nullptr) {
      ASSERT_NE(::dlopen(MEG_CUDA_DRIVER_STUB, RTLD_NOW), nullptr) << ::dlerror();
    }
    if (::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      GTEST_SKIP() << "this LibTorch is for CPUs only: " << ::dlerror();
    }
  }

  /// Attention of GPT-345M.
  AttentionGradientShape shape_{
      .rows = 16, .tokens = 1024, .heads = 16, .channels = 64, .scale = 0.125F};
};

TEST_F(CudnnAttentionGradientTest, HopperHasIt) {
  for (const FloatType type : {FloatType::kBFloat16, FloatType::kFloat16}) {
    for (const float dropout : {0.F, 0.125F}) {
      for (const int64_t channels : {64, 128}) {
        for (const int64_t tokens : {64, 1000, 1024, 4096}) {
          shape_.type = type;
          shape_.dropout = dropout;
          shape_.channels = channels;
          shape_.tokens = tokens;
          const Status status = CudnnAttentionGradient::check_support(shape_, kH200, kHopper);
          EXPECT_TRUE(status.ok()) << channels << " channels, " << tokens << " tokens, dropout "
                                   << dropout << ": " << status.message();
        }
      }
    }
  }
}

TEST_F(CudnnAttentionGradientTest, HopperHasADeterministicOne) {
  shape_.deterministic = true;
  const Status status = CudnnAttentionGradient::check_support(shape_, kH200, kHopper);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(CudnnAttentionGradientTest, SaysWhatThereIsNot) {
  shape_.channels = 63;
  const Status status = CudnnAttentionGradient::check_support(shape_, kH200, kHopper);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("cuDNN, gradient of attention: "), std::string::npos)
      << status.message();
}

TEST_F(CudnnAttentionGradientTest, RefusesADeviceThatIsNoDescription) {
  EXPECT_FALSE(CudnnAttentionGradient::check_support(shape_, "{}", kHopper).ok());
}

}  // namespace
}  // namespace meg::kernels
