#include "libmeg/checkpoint/verify/tensor_difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "libmeg/base/float_convert.h"

namespace meg::checkpoint {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

ElementDifferences compare(const std::vector<float>& a, const std::vector<float>& b,
                           const Tolerance& tolerance = {}) {
  return compare_elements(DType::kFloat32, std::as_bytes(std::span(a)), DType::kFloat32,
                          std::as_bytes(std::span(b)), 0, tolerance);
}

TEST(TensorDifference, CountsAndMeasuresUnequalElements) {
  std::vector<float> a(10000, 1);
  std::vector<float> b = a;
  b[5000] = 1.5f;
  b[9999] = -1;
  const ElementDifferences found = compare(a, b);
  EXPECT_EQ(found.count, 2);
  EXPECT_EQ(found.first, 5000);
  EXPECT_EQ(found.first_a, "1");
  EXPECT_EQ(found.first_b, "1.5");
  EXPECT_EQ(found.max_abs, 2);
  EXPECT_EQ(found.max_rel, 2);
}

TEST(TensorDifference, NanEqualsNanAlone) {
  EXPECT_EQ(compare({kNan}, {-kNan}).count, 0);
  EXPECT_EQ(compare({kNan}, {1}, {.atol = 100}).count, 1);
  EXPECT_EQ(compare({1}, {kNan}, {.atol = 100}).count, 1);
  EXPECT_EQ(compare({kInfinity}, {kInfinity}, {.atol = 1}).count, 0);
  EXPECT_EQ(compare({kInfinity}, {-kInfinity}, {.atol = 1}).count, 1);
  EXPECT_EQ(compare({kInfinity}, {-kInfinity}, {.atol = 1}).max_abs, HUGE_VAL);
}

TEST(TensorDifference, NoToleranceMakesAnInfinityEqualToANumber) {
  for (const float b : {kInfinity, -kInfinity}) {
    for (const float a : {1.0f, -b, kNan}) {
      EXPECT_EQ(compare({a}, {b}, {.atol = 1, .rtol = 1e-3}).count, 1) << a;
      EXPECT_EQ(compare({b}, {a}, {.atol = 1, .rtol = 1e-3}).count, 1) << a;
    }
    EXPECT_EQ(compare({b}, {b}, {.rtol = 1e-3}).count, 0);
    EXPECT_EQ(compare({1}, {b}).max_rel, HUGE_VAL);
  }
}

TEST(TensorDifference, ExactMeansTheSameBits) {
  EXPECT_EQ(compare({0.0f}, {-0.0f}).count, 1);
  EXPECT_EQ(compare({0.0f}, {-0.0f}, {.rtol = 1e-6}).count, 0);
}

TEST(TensorDifference, TolerancesAddUp) {
  EXPECT_EQ(compare({1.5f}, {1}, {.atol = 0.25, .rtol = 0.25}).count, 0);
  EXPECT_EQ(compare({1.5f}, {1}, {.atol = 0.25, .rtol = 0.2}).count, 1);
}

TEST(TensorDifference, WidensNarrowTypes) {
  const std::vector<float> values = {0.5f, -3, kNan, 65504};
  std::vector<uint16_t> narrow(values.size());
  ASSERT_TRUE(convert_floats(DType::kFloat32, std::as_bytes(std::span(values)), DType::kFloat16,
                             std::as_writable_bytes(std::span(narrow)))
                  .ok());
  EXPECT_EQ(compare_elements(DType::kFloat16, std::as_bytes(std::span(narrow)), DType::kFloat32,
                             std::as_bytes(std::span(values)), 0, {})
                .count,
            0);
}

TEST(TensorDifference, ComparesIntegersByTheirBits) {
  const std::vector<int64_t> a = {1, 2, 3};
  const std::vector<int64_t> b = {1, 5, 3};
  const ElementDifferences found =
      compare_elements(DType::kInt64, std::as_bytes(std::span(a)), DType::kInt64,
                       std::as_bytes(std::span(b)), 10, {});
  EXPECT_EQ(found.count, 1);
  EXPECT_EQ(found.first, 11);
  EXPECT_EQ(found.first_b, "5");
  EXPECT_FALSE(are_comparable(DType::kInt64, DType::kFloat32));
}

}  // namespace
}  // namespace meg::checkpoint
