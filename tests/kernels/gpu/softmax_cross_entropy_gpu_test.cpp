#include <gtest/gtest.h>

#include <cmath>

#include "libmeg/kernels/softmax_cross_entropy.h"
#include "tests/kernels/gpu/device_array.h"
#include "tests/kernels/gpu/require_gpu.h"
#include "tests/kernels/softmax_cross_entropy_formula.h"

namespace meg::kernels {
namespace {

using test::CrossEntropyCase;
using test::DeviceArray;
using test::FloatArray;
using test::kFloatTypes;

constexpr CudaAccess kAccesses[] = {CudaAccess::kScalar, CudaAccess::kVectorized};

/// A case on the GPU, with the gradients in place of the logits.
struct OnDevice {
  explicit OnDevice(const CrossEntropyCase& made)
      : logits(made.logits),
        labels(made.labels),
        grad_losses(made.grad_losses),
        losses(made.grad_losses),
        maxima(made.grad_losses),
        sums(made.grad_losses),
        label_error(std::vector<int>{0}) {}

  SoftmaxCrossEntropyForward forward(const CrossEntropyCase& made) const {
    return {made.logits.type(),  logits.get(),        labels.get<int64_t>(),
            losses.get<float>(), maxima.get<float>(), sums.get<float>(),
            made.rows,           made.columns};
  }

  SoftmaxCrossEntropyBackward backward(const CrossEntropyCase& made) const {
    return {made.logits.type(),  logits.get(),      labels.get<int64_t>(),
            maxima.get<float>(), sums.get<float>(), grad_losses.get<float>(),
            logits.get(),        made.rows,         made.columns};
  }

  DeviceArray logits, labels, grad_losses, losses, maxima, sums, label_error;
};

TEST(SoftmaxCrossEntropyGpuTest, LossesAndGradientsMatchThePlainFormula) {
  MEG_REQUIRE_GPU();
  for (const auto access : kAccesses) {
    for (const auto type : kFloatTypes) {
      for (const int64_t columns : {1, 2, 17, 296, 1024, 1025, 5003, 50304}) {
        const CrossEntropyCase made = test::cross_entropy_case(type, 11, columns);
        const OnDevice device(made);
        ASSERT_EQ(softmax_cross_entropy_forward_cuda(
                      device.forward(made), device.label_error.get<int>(), nullptr, access),
                  0);
        // 16-bit logits take the GPU's approximate e^x.
        test::expect_losses(made, device.losses.values<float>(),
                            type == FloatType::kFloat32 ? 5e-7 : 2e-6);
        EXPECT_EQ(device.label_error.values<int>(), std::vector<int>{0});
        ASSERT_EQ(softmax_cross_entropy_backward_cuda(device.backward(made), nullptr, access), 0);
        test::expect_gradients(made, device.logits.floats(type));
        ASSERT_EQ(cudaGetLastError(), cudaSuccess);
      }
    }
  }
}

TEST(SoftmaxCrossEntropyGpuTest, BothPassesInOneMatchThePlainFormula) {
  MEG_REQUIRE_GPU();
  for (const auto access : kAccesses) {
    for (const auto type : kFloatTypes) {
      for (const int64_t columns : {1, 17, 296, 1025, 12584}) {
        const CrossEntropyCase made = test::cross_entropy_case(type, 11, columns);
        const OnDevice device(made);
        ASSERT_EQ(softmax_cross_entropy_forward_backward_cuda(
                      device.forward(made), device.grad_losses.get<float>(), device.logits.get(),
                      device.label_error.get<int>(), nullptr, access),
                  0);
        test::expect_losses(made, device.losses.values<float>(),
                            type == FloatType::kFloat32 ? 5e-7 : 2e-6);
        test::expect_gradients(made, device.logits.floats(type));
        EXPECT_EQ(device.label_error.values<int>(), std::vector<int>{0});
        ASSERT_EQ(cudaGetLastError(), cudaSuccess);
      }
    }
  }
}

TEST(SoftmaxCrossEntropyGpuTest, LabelOutsideIsFlaggedAndItsLossIsNan) {
  MEG_REQUIRE_GPU();
  for (const int64_t label : {int64_t{-1}, int64_t{64}}) {
    CrossEntropyCase made = test::cross_entropy_case(FloatType::kFloat32, 6, 64);
    made.labels[4] = label;
    const OnDevice device(made);
    ASSERT_EQ(softmax_cross_entropy_forward_cuda(device.forward(made),
                                                 device.label_error.get<int>(), nullptr),
              0);
    EXPECT_EQ(device.label_error.values<int>(), std::vector<int>{1});
    EXPECT_TRUE(std::isnan(device.losses.values<float>()[4]));
    EXPECT_FALSE(std::isnan(device.losses.values<float>()[3]));
  }
}

TEST(SoftmaxCrossEntropyGpuTest, MinusInfinityIsProbabilityZero) {
  MEG_REQUIRE_GPU();
  CrossEntropyCase made = test::cross_entropy_case(FloatType::kFloat32, 1, 8);
  made.logits =
      FloatArray(FloatType::kFloat32, {-INFINITY, 1, -INFINITY, 1, -INFINITY, -INFINITY, 1, 1});
  made.labels = {1};
  made.grad_losses = {1};
  for (const auto access : kAccesses) {
    const OnDevice device(made);
    ASSERT_EQ(softmax_cross_entropy_forward_cuda(device.forward(made),
                                                 device.label_error.get<int>(), nullptr, access),
              0);
    EXPECT_FLOAT_EQ(device.losses.values<float>()[0], std::log(4.0f));
    ASSERT_EQ(softmax_cross_entropy_backward_cuda(device.backward(made), nullptr, access), 0);
    EXPECT_EQ(device.logits.values<float>(),
              (std::vector<float>{0, -0.75, 0, 0.25, 0, 0, 0.25, 0.25}));
  }
}

TEST(SoftmaxCrossEntropyGpuTest, TwoRunsGiveTheSameBits) {
  MEG_REQUIRE_GPU();
  const CrossEntropyCase made = test::cross_entropy_case(FloatType::kBFloat16, 160, 50304);
  const OnDevice first(made), second(made);
  for (const auto* device : {&first, &second}) {
    ASSERT_EQ(softmax_cross_entropy_forward_cuda(device->forward(made),
                                                 device->label_error.get<int>(), nullptr),
              0);
  }
  EXPECT_EQ(test::bits_of(first.losses.values<float>()),
            test::bits_of(second.losses.values<float>()));
}

}  // namespace
}  // namespace meg::kernels
