// What the pretended device says of itself, an H200, and of the driver behind it.

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

constexpr int kVersion = 13000;
constexpr int kProcessors = 132;
constexpr int kThreadsOfBlock = 1024;
constexpr int kThreadsOfProcessor = 2048;
constexpr int kSharedMemory = 48 * 1024;
constexpr int kSharedMemoryOnDemand = 227 * 1024;
constexpr int kRegisters = 65536;
constexpr int kWarp = 32;
constexpr int kL2Cache = 60 * 1024 * 1024;

cudaDeviceProp properties_of_h200() {
  cudaDeviceProp properties = {};
  std::strcpy(properties.name, "NVIDIA H200");
  properties.totalGlobalMem = size_t{141} * 1000 * 1000 * 1000;
  properties.sharedMemPerBlock = kSharedMemory;
  properties.sharedMemPerBlockOptin = kSharedMemoryOnDemand;
  properties.sharedMemPerMultiprocessor = kSharedMemoryOnDemand + 1024;
  properties.reservedSharedMemPerBlock = 1024;
  properties.regsPerBlock = properties.regsPerMultiprocessor = kRegisters;
  properties.warpSize = kWarp;
  properties.maxThreadsPerBlock = kThreadsOfBlock;
  properties.maxThreadsPerMultiProcessor = kThreadsOfProcessor;
  properties.maxBlocksPerMultiProcessor = 32;
  const int block[] = {1024, 1024, 64};
  const int grid[] = {2147483647, 65535, 65535};
  std::copy_n(block, 3, properties.maxThreadsDim);
  std::copy_n(grid, 3, properties.maxGridSize);
  properties.major = 9;
  properties.multiProcessorCount = kProcessors;
  properties.l2CacheSize = kL2Cache;
  properties.memoryBusWidth = 6144;
  properties.unifiedAddressing = properties.canMapHostMemory = 1;
  properties.concurrentKernels = properties.asyncEngineCount = 1;
  properties.textureAlignment = 512;
  return properties;
}

thread_local int current_device = 0;

/// One, or as many as MEG_PRETENDED_DEVICES says.
int device_count() {
  const char* const count = std::getenv("MEG_PRETENDED_DEVICES");
  return count == nullptr ? 1 : std::atoi(count);
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = properties_of_h200();
  properties->uuid.bytes[0] = static_cast<char>(device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = kProcessors;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = kThreadsOfBlock;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = kThreadsOfProcessor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = kSharedMemory;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kSharedMemoryOnDemand;
      return cudaSuccess;
    case cudaDevAttrMaxRegistersPerBlock:
      *value = kRegisters;
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = kWarp;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = kL2Cache;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaPeekAtLastError() { return cudaSuccess; }

const char* cudaGetErrorName(cudaError_t) { return "cudaErrorPretended"; }

const char* cudaGetErrorString(cudaError_t) { return "not done by the pretended device"; }

// The driver. This library stands in the place of libcuda.so.1, so that whoever is linked with it
// loads: it answers whether the device is in use and has a context, and refuses everything else.

int cuCtxGetCurrent(void** context) {
  static char only;
  *context = &only;
  return 0;
}

int cuDevicePrimaryCtxGetState(int, unsigned int* flags, int* active) {
  *flags = 0;
  *active = 1;
  return 0;
}

#define MEG_REFUSED(function) \
  int function() { return static_cast<int>(cudaErrorNotSupported); }
MEG_REFUSED(cuCtxSetCurrent)
MEG_REFUSED(cuDeviceGet)
MEG_REFUSED(cuDeviceGetAttribute)
MEG_REFUSED(cuDevicePrimaryCtxRetain)
MEG_REFUSED(cuFuncGetAttribute)
MEG_REFUSED(cuFuncSetAttribute)
MEG_REFUSED(cuFuncSetCacheConfig)
MEG_REFUSED(cuGetErrorString)
MEG_REFUSED(cuLaunchCooperativeKernel)
MEG_REFUSED(cuLaunchKernel)
MEG_REFUSED(cuLinkAddData_v2)
MEG_REFUSED(cuLinkComplete)
MEG_REFUSED(cuLinkCreate_v2)
MEG_REFUSED(cuModuleGetFunction)
MEG_REFUSED(cuModuleLoad)
MEG_REFUSED(cuModuleLoadData)
MEG_REFUSED(cuModuleLoadDataEx)
MEG_REFUSED(cuModuleUnload)
MEG_REFUSED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
MEG_REFUSED(cuPointerGetAttribute)
MEG_REFUSED(cuTensorMapEncodeTiled)
#undef MEG_REFUSED

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = ::dlsym(RTLD_DEFAULT, symbol);
  if (*function == nullptr) *function = reinterpret_cast<void*>(&cuDeviceGet);  // it refuses
  if (result != nullptr) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

/// The C library's, for whom the driver's device file is there.
int access(const char* path, int mode) {
  static auto* const real =
      reinterpret_cast<int (*)(const char*, int)>(::dlsym(RTLD_NEXT, "access"));
  return std::string_view(path) == "/dev/nvidiactl" ? 0 : real(path, mode);
}

}  // extern "C"
