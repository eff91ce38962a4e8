#include <gtest/gtest.h>

#include <cmath>

#include "libmeg/kernels/optimizer/gradient_statistics.h"
#include "libmeg/kernels/optimizer/multi_tensor_adam.h"
#include "tests/kernels/adam_formula.h"
#include "tests/kernels/gpu/device_array.h"
#include "tests/kernels/gpu/require_gpu.h"

namespace meg::train {
namespace {

using test::AdamState;
using test::DeviceArray;
using test::FloatArray;
using test::kFloatTypes;

constexpr int64_t kCounts[] = {
    5, 0, kernels::kChunkElements, 3 * kernels::kChunkElements + 1, 0, 77, 40003, 0};

std::vector<AdamState> states() {
  std::vector<AdamState> made;
  for (const int64_t count : kCounts) {
    const size_t i = made.size();
    made.emplace_back(count, kFloatTypes[i % 3], kFloatTypes[(i / 2) % 3],
                      static_cast<unsigned>(10 * i));
  }
  return made;
}

/// A state's arrays on the GPU.
struct OnDevice {
  explicit OnDevice(const AdamState& state)
      : gradient(state.gradient),
        master(state.master),
        exp_avg(state.exp_avg),
        exp_avg_sq(state.exp_avg_sq),
        weight(state.weight) {}

  /// `tensor` with the device's pointers.
  kernels::AdamTensor moved(kernels::AdamTensor tensor) const {
    tensor.gradient = gradient.get();
    tensor.master = master.get<float>();
    tensor.exp_avg = exp_avg.get<float>();
    tensor.exp_avg_sq = exp_avg_sq.get<float>();
    if (tensor.weight != nullptr) tensor.weight = weight.get();
    return tensor;
  }

  DeviceArray gradient, master, exp_avg, exp_avg_sq, weight;
};

TEST(MultiTensorAdamGpuTest, GivesTheBitsOfTheCpu) {
  MEG_REQUIRE_GPU();
  for (const auto access : {kernels::CudaAccess::kScalar, kernels::CudaAccess::kVectorized}) {
    for (const bool adam_w_mode : {true, false}) {
      std::vector<AdamState> on_cpu = states();
      std::vector<OnDevice> on_device(on_cpu.begin(), on_cpu.end());
      std::vector<kernels::AdamTensor> cpu_list, device_list;
      for (size_t i = 0; i < on_cpu.size(); ++i) {
        cpu_list.push_back(on_cpu[i].tensor(static_cast<int>(i % 2)));
        device_list.push_back(on_device[i].moved(cpu_list.back()));
      }
      kernels::AdamStep step = test::adam_step(4);
      step.adam_w_mode = adam_w_mode;
      const auto tensors = static_cast<int64_t>(cpu_list.size());
      const int64_t chunks = kernels::number_chunks(cpu_list.data(), tensors);
      ASSERT_EQ(kernels::number_chunks(device_list.data(), tensors), chunks);
      const DeviceArray list(device_list);
      kernels::multi_tensor_adam_cpu(cpu_list.data(), tensors, step, 0, chunks);
      ASSERT_EQ(kernels::multi_tensor_adam_cuda(list.get<kernels::AdamTensor>(), tensors, step,
                                                chunks, nullptr, access),
                0);
      for (size_t i = 0; i < on_cpu.size(); ++i) {
        using test::bits_of;
        const OnDevice& device = on_device[i];
        EXPECT_EQ(bits_of(on_cpu[i].master), bits_of(device.master.values<float>())) << i;
        EXPECT_EQ(bits_of(on_cpu[i].exp_avg), bits_of(device.exp_avg.values<float>())) << i;
        EXPECT_EQ(bits_of(on_cpu[i].exp_avg_sq), bits_of(device.exp_avg_sq.values<float>())) << i;
        const kernels::FloatType type = on_cpu[i].weight.type();
        EXPECT_EQ(on_cpu[i].weight.floats(), device.weight.floats(type).floats()) << i;
      }
      ASSERT_EQ(cudaGetLastError(), cudaSuccess);
    }
  }
}

TEST(GradientStatisticsGpuTest, MatchTheCpu) {
  MEG_REQUIRE_GPU();
  for (const bool with_nan : {false, true}) {
    std::vector<AdamState> made = states();
    if (with_nan) {
      auto values = made[6].gradient.floats();
      values[40002] = std::nanf("");
      made[6].gradient = FloatArray(made[6].gradient.type(), values);
    }
    std::vector<DeviceArray> arrays;
    std::vector<kernels::GradientTensor> cpu_list, device_list;
    for (const AdamState& state : made) {
      arrays.emplace_back(state.gradient);
      const auto count = static_cast<int64_t>(state.master.size());
      // Start from the second element, too, which is at no multiple of 16 bytes.
      for (const int64_t first : {0, 1}) {
        if (first >= count) continue;
        const auto part = [&](const void* gradient) {
          const int64_t bytes = first * kernels::float_type_size(state.gradient.type());
          return kernels::GradientTensor{static_cast<const char*>(gradient) + bytes,
                                         state.gradient.type(), count - first, 0};
        };
        cpu_list.push_back(part(state.gradient.data()));
        device_list.push_back(part(arrays.back().get()));
      }
    }
    const auto tensors = static_cast<int64_t>(cpu_list.size());
    const int64_t chunks = kernels::number_chunks(cpu_list.data(), tensors);
    ASSERT_EQ(kernels::number_chunks(device_list.data(), tensors), chunks);
    std::vector<kernels::GradientStatistics> of_chunks(static_cast<size_t>(chunks) + 1);
    kernels::gradient_statistics_cpu(cpu_list.data(), tensors, 0.5f, of_chunks.data(), 0, chunks);
    const kernels::GradientStatistics wanted = kernels::total_statistics(of_chunks.data(), chunks);
    const DeviceArray list(device_list), device_chunks(of_chunks);
    auto* results = device_chunks.get<kernels::GradientStatistics>();
    ASSERT_EQ(kernels::gradient_statistics_cuda(list.get<kernels::GradientTensor>(), tensors, 0.5f,
                                                results, chunks, results + chunks, nullptr),
              0);
    const kernels::GradientStatistics found =
        device_chunks.values<kernels::GradientStatistics>().back();
    EXPECT_EQ(found.found_inf(), with_nan);
    if (!with_nan) {
      EXPECT_NEAR(found.sum_of_squares, wanted.sum_of_squares, 1e-13 * wanted.sum_of_squares);
    }
    EXPECT_EQ(found.num_zeros, wanted.num_zeros);
    ASSERT_EQ(cudaGetLastError(), cudaSuccess);
  }
}

}  // namespace
}  // namespace meg::train
