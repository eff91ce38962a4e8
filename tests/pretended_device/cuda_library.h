#pragma once

#include <ATen/Context.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace meg::test {

/// Loads the CUDA half of LibTorch, over the pretended device; false where this LibTorch has none.
/// counts_memory: every tensor is then memory of its own, zero at first, and counted; graphs, whose
/// memory LibTorch has to keep, are not recorded.
inline bool load_cuda_library(bool counts_memory = true) {
  constexpr const char* kLibrary = "libtorch_cuda.so";
  Dl_info torch = {};
  ::dladdr(reinterpret_cast<const void*>(&at::globalContext), &torch);
  if (!std::filesystem::exists(std::filesystem::path(torch.dli_fname).replace_filename(kLibrary))) {
    return false;
  }
  if (counts_memory) ::setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", /*overwrite=*/1);
  EXPECT_NE(::dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL), nullptr) << ::dlerror();
  return true;
}

}  // namespace meg::test
