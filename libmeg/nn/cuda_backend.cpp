#include "libmeg/nn/cuda_backend.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

namespace meg::nn {
namespace {

bool load() {
  if (::access("/dev/nvidiactl", F_OK) != 0) return false;
  if (::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) return false;
  return at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0;
}

}  // namespace

bool load_cuda_backend() {
  static const bool loaded = load();
  return loaded;
}

void use_deterministic_algorithms() {
  // What cuBLAS asks for; it reads it at its first product.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setBenchmarkCuDNN(false);
}

}  // namespace meg::nn
