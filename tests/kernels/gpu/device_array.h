#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "tests/kernels/float_array.h"

namespace meg::test {

/// Bytes on the GPU, freed at the end; the tests look at cudaGetLastError() once.
class DeviceArray {
 public:
  DeviceArray(const void* bytes, size_t count) : count_(count) {
    cudaMalloc(&pointer_, count == 0 ? 1 : count);
    cudaMemcpy(pointer_, bytes, count, cudaMemcpyHostToDevice);
  }

  explicit DeviceArray(const FloatArray& values)
      : DeviceArray(values.data(), values.size_bytes()) {}

  template <class T>
  explicit DeviceArray(const std::vector<T>& values)
      : DeviceArray(values.data(), values.size() * sizeof(T)) {}

  DeviceArray(DeviceArray&& other) noexcept : pointer_(other.pointer_), count_(other.count_) {
    other.pointer_ = nullptr;
  }

  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  ~DeviceArray() { cudaFree(pointer_); }

  template <class T = void>
  T* get() const {
    return static_cast<T*>(pointer_);
  }

  /// Waits for the GPU.
  void copy_to(void* bytes) const { cudaMemcpy(bytes, pointer_, count_, cudaMemcpyDeviceToHost); }

  template <class T>
  std::vector<T> values() const {
    std::vector<T> values(count_ / sizeof(T));
    copy_to(values.data());
    return values;
  }

  FloatArray floats(kernels::FloatType type) const {
    const auto count = count_ / static_cast<size_t>(kernels::float_type_size(type));
    FloatArray array(type, std::vector<float>(count));
    copy_to(array.data());
    return array;
  }

 private:
  void* pointer_ = nullptr;
  size_t count_;
};

}  // namespace meg::test
