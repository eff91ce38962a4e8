// What is said where no GPU can be used, on machines without one: each case is a process of its
// own, in which the driver's device file seems to be there.

#include "libmeg/libtorch/cuda_backend.h"

#include <ATen/ATen.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "libmeg/kernels/cuda_device.h"
#include "tests/nn/small_model.h"

namespace {
bool has_driver = false;
bool has_torch_cuda = true;
}  // namespace

// These take precedence over the C library's.
extern "C" int access(const char* path, int mode) noexcept {
  if (has_driver && std::strcmp(path, "/dev/nvidiactl") == 0) return 0;
  return ::faccessat(AT_FDCWD, path, mode, 0);
}

extern "C" void* dlopen(const char* path, int mode) noexcept {
  static const auto real =
      reinterpret_cast<void* (*)(const char*, int)>(::dlsym(RTLD_NEXT, "dlopen"));
  const bool is_hidden =
      !has_torch_cuda && path != nullptr && std::strstr(path, "torch_cuda") != nullptr;
  return real(is_hidden ? "hidden_torch_cuda.so" : path, mode);
}

namespace meg::libtorch {
namespace {

using test::small_config;
using test::small_model;

class CudaBackendTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (::faccessat(AT_FDCWD, "/dev/nvidiactl", F_OK, 0) == 0) {
      GTEST_SKIP() << "this machine has a driver";
    }
  }
};

/// Ends the process with what a model on a GPU is refused with.
[[noreturn]] void tell_and_exit() {
  nn::GptOptions options;
  options.device = at::kCUDA;
  const auto model = nn::GptModel::create(small_config(), options);
  std::fprintf(stderr, "%s\n", model.status().message().c_str());
  std::_Exit(0);
}

/// Whether LibTorch's CUDA half lies beside the other.
bool torch_has_cuda() {
  Dl_info found;
  if (::dladdr(reinterpret_cast<const void*>(&at::globalContext), &found) == 0) return false;
  return std::filesystem::exists(
      std::filesystem::path(found.dli_fname).replace_filename("libtorch_cuda.so"));
}

TEST_F(CudaBackendTest, SaysThatThereIsNoDriver) {
  EXPECT_EXIT(tell_and_exit(), testing::ExitedWithCode(0),
              "device: expected a GPU for cuda, found none: this machine has no NVIDIA driver");
}

TEST_F(CudaBackendTest, SaysWhyTheLibraryDoesNotLoad) {
  const auto run = [] {
    has_driver = true;
    has_torch_cuda = false;
    tell_and_exit();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "found none: hidden_torch_cuda.so: cannot open");
}

TEST_F(CudaBackendTest, SaysThatLibTorchWasAskedBefore) {
  if (!torch_has_cuda()) GTEST_SKIP() << "this LibTorch is for CPUs";
  const auto run = [] {
    has_driver = true;
    const at::Tensor ones = at::ones({2}).requires_grad_();
    ones.sum().backward();
    tell_and_exit();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "CUDA was requested too late");
}

TEST_F(CudaBackendTest, StepsOnTheCpuDoNotHideTheGpu) {
  if (!torch_has_cuda()) GTEST_SKIP() << "this LibTorch is for CPUs";
  const auto run = [] {
    has_driver = true;
    nn::GptModel model = small_model(small_config());
    test::gradients_of(model);
    tell_and_exit();
  };
  ASSERT_NE(kernels::cuda_problem(), nullptr);
  EXPECT_EXIT(run(), testing::ExitedWithCode(0),
              std::string("found none: ") + kernels::cuda_problem());
}

}  // namespace
}  // namespace meg::libtorch
