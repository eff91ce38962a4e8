// Kernels: registered by the start-up code that nvcc writes, launched by name, never run.

#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/pretended_device/memory.h"
#include "tests/pretended_device/recorder.h"

namespace meg::pretended {
namespace {

/// "void at::native::f<A, (B)2>(C)" -> "at::native::f"
std::string function_name(const std::string& signature) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  std::string name;
  int depth = 0;
  for (size_t i = 0; i < signature.size(); ++i) {
    if (signature.compare(i, kAnonymous.size(), kAnonymous) == 0) {
      i += kAnonymous.size() - 1;
      continue;
    }
    const char letter = signature[i];
    if (depth == 0 && letter == '(') break;
    if (letter == '<') ++depth;
    if (depth == 0) name = letter == ' ' ? std::string() : name + letter;
    if (letter == '>') --depth;
  }
  return name;
}

std::string demangled(const char* name) {
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, nullptr), std::free);
  return text == nullptr ? name : text.get();
}

/// Kernels and variables of the device by the host's address that stands for them.
class Registry {
 public:
  static Registry& instance() {
    static auto* const registry = new Registry;
    return *registry;
  }

  void add_kernel(const void* function, const char* name) {
    const std::lock_guard lock(mutex_);
    kernels_[function] = name;
  }

  /// Empty where nothing of the kind was registered.
  std::string name_of(const void* function) {
    const std::lock_guard lock(mutex_);
    const auto found = kernels_.find(function);
    return found == kernels_.end() ? std::string() : function_name(demangled(found->second));
  }

  void add_variable(const void* variable, size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::vector<char>& memory = variables_[variable];
    memory.resize(bytes);
    MemoryMap::instance().add(memory.data(), bytes, MemoryKind::kDevice);
  }

  void* memory_of(const void* variable) {
    const std::lock_guard lock(mutex_);
    const auto found = variables_.find(variable);
    return found == variables_.end() ? nullptr : found->second.data();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, const char*> kernels_;
  std::unordered_map<const void*, std::vector<char>> variables_;
};

/// What stands between a launch's <<<...>>> and its stub, by thread.
struct LaunchConfiguration {
  dim3 grid, block;
  size_t shared_memory;
  cudaStream_t stream;
};

thread_local std::vector<LaunchConfiguration> configurations;

cudaError_t launch(const void* function, cudaStream_t stream) {
  const std::string name = Registry::instance().name_of(function);
  if (name.empty()) return cudaErrorInvalidDeviceFunction;
  Recorder::instance().add_kernel(stream, name);
  return cudaSuccess;
}

}  // namespace
}  // namespace meg::pretended

using meg::pretended::Registry;

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  Registry::instance().add_kernel(function, name);
}

void __cudaRegisterVar(void**, char* variable, char*, const char*, int, size_t bytes, int, int) {
  Registry::instance().add_variable(variable, bytes);
}

unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_memory,
                                         cudaStream_t stream) {
  meg::pretended::configurations.push_back({grid, block, shared_memory, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_memory,
                                       void* stream) {
  auto& configurations = meg::pretended::configurations;
  if (configurations.empty()) return cudaErrorInvalidConfiguration;
  const auto& last = configurations.back();
  *grid = last.grid;
  *block = last.block;
  *shared_memory = last.shared_memory;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  configurations.pop_back();
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, size_t,
                               cudaStream_t stream) {
  return meg::pretended::launch(kernel, stream);
}

cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void**, size_t,
                             cudaStream_t stream) {
  return meg::pretended::launch(function, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void* function,
                                void**) {
  return meg::pretended::launch(function, configuration->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion = 90;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int,
                                                                   size_t, unsigned int) {
  *blocks = 2;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, size_t shared_memory) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                shared_memory, 0);
}

cudaError_t cudaGetSymbolAddress(void** memory, const void* variable) {
  *memory = Registry::instance().memory_of(variable);
  return *memory == nullptr ? cudaErrorInvalidSymbol : cudaSuccess;
}

}  // extern "C"
