#include "libmeg/libtorch/cuda_backend.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <typeinfo>

#include "libmeg/kernels/cuda_device.h"

namespace meg::libtorch {
namespace {

constexpr const char* kDriver = "/dev/nvidiactl";
constexpr const char* kBackend = "libtorch_cuda.so";

Status no_gpu(std::string_view reason) {
  return make_error(StatusCode::kInvalidArgument, "device: expected a GPU for cuda, found none: {}",
                    reason);
}

/// Whether LibTorch took its stand-in for CUDA, which it then keeps.
bool was_asked_before() {
  return typeid(at::detail::getCUDAHooks()) == typeid(at::CUDAHooksInterface);
}

Status load() {
  // Look before the library is loaded: without a driver that takes a while, and its message says
  // less.
  if (::access(kDriver, F_OK) != 0) {
    return no_gpu("this machine has no NVIDIA driver (/dev/nvidiactl)");
  }
  if (::dlopen(kBackend, RTLD_NOW | RTLD_GLOBAL) == nullptr) return no_gpu(::dlerror());
  // LibTorch asks once and keeps the answer "no CUDA" permanently, so a model on cuda would fail
  // later with a message that explains nothing.
  if (was_asked_before()) {
    return no_gpu(
        "CUDA was requested too late, after LibTorch was used without it; create a model or call "
        "load_cuda_backend first");
  }
  if (const char* const problem = kernels::cuda_problem()) return no_gpu(problem);
  return Status();
}

}  // namespace

const Status& load_cuda_backend() {
  static const Status loaded = load();
  return loaded;
}

void use_deterministic_algorithms() {
  // What cuBLAS asks for; it reads it at its first product.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // No operator here reads what it did not write; the fill costs a kernel for each new tensor.
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
}

}  // namespace meg::libtorch
