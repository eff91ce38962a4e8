#pragma once

#include <cstddef>
#include <cstdint>

#include "libmeg/base/float_kernels.h"
#include "libmeg/kernels/cpu/cpu_loops.h"
#include "libmeg/kernels/float_type.h"

namespace meg::kernels {

/// Elements that a CPU kernel processes at a time; as fp32 they fit the first-level cache.
constexpr int64_t kRunElements = 1024;

/// Reads and writes runs of elements of any FloatType as fp32.
class CpuRuns {
 public:
  explicit CpuRuns(FloatType type) : type_(type) {}

  const CpuLoops& loops() const { return loops_; }

  /// Elements [begin, begin + count) as fp32: in place, or widened into `buffer`.
  const float* read(const void* elements, int64_t begin, int64_t count, float* buffer) const {
    if (type_ == FloatType::kFloat32) return static_cast<const float*>(elements) + begin;
    const auto widen = type_ == FloatType::kFloat16 ? convert_.widen_float16  //
                                                    : convert_.widen_bfloat16;
    widen(static_cast<const std::byte*>(elements) + 2 * begin, reinterpret_cast<std::byte*>(buffer),
          static_cast<size_t>(count));
    return buffer;
  }

  /// The memory for the fp32 values of elements from `begin` on: in place, or `buffer`, from which
  /// write() stores them.
  float* place(void* elements, int64_t begin, float* buffer) const {
    return type_ == FloatType::kFloat32 ? static_cast<float*>(elements) + begin : buffer;
  }

  /// Narrows `values` into elements [begin, begin + count), unless they are already there.
  void write(const float* values, void* elements, int64_t begin, int64_t count) const {
    if (type_ == FloatType::kFloat32) return;
    const auto narrow =
        type_ == FloatType::kFloat16 ? convert_.narrow_to_float16 : convert_.narrow_to_bfloat16;
    narrow(reinterpret_cast<const std::byte*>(values),
           static_cast<std::byte*>(elements) + 2 * begin, static_cast<size_t>(count));
  }

 private:
  FloatType type_;
  const CpuLoops& loops_ = cpu_loops(best_instruction_set());
  const FloatKernels& convert_ = float_kernels(best_instruction_set());
};

}  // namespace meg::kernels
