#include "libmeg/kernels/optimizer/gradient_statistics.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/kernels/float_array.h"

namespace meg::kernels {
namespace {

using test::FloatArray;
using test::kFloatTypes;
using test::normal_values;

GradientStatistics statistics_of(const std::vector<FloatArray>& gradients, float scale) {
  std::vector<GradientTensor> list;
  for (const auto& gradient : gradients) {
    const auto count = static_cast<int64_t>(gradient.floats().size());
    list.push_back({gradient.data(), gradient.type(), count});
  }
  const auto tensors = static_cast<int64_t>(list.size());
  const int64_t chunks = number_chunks(list.data(), tensors);
  std::vector<GradientStatistics> of_chunks(static_cast<size_t>(chunks));
  gradient_statistics_cpu(list.data(), tensors, scale, of_chunks.data(), chunks / 2, chunks);
  gradient_statistics_cpu(list.data(), tensors, scale, of_chunks.data(), 0, chunks / 2);
  return total_statistics(of_chunks.data(), chunks);
}

TEST(GradientStatisticsTest, SumsSquaresAndCountsZerosOfAllTensors) {
  std::vector<FloatArray> gradients;
  double sum = 0;
  int64_t zeros = 0;
  const float scale = 0.125f;
  unsigned seed = 0;
  for (const int64_t count : {1, 15, 16, 17, 0, 1000, 16384, 40001}) {
    auto values = normal_values(count, 2, ++seed);
    for (size_t i = 0; i < values.size(); i += 9) values[i] = i % 2 == 0 ? 0 : -0.0f;
    gradients.emplace_back(kFloatTypes[seed % 3], values);
    for (const float value : gradients.back().floats()) {
      const float scaled = value * scale;
      sum += double{scaled} * double{scaled};
      if (scaled == 0) ++zeros;
    }
  }
  const GradientStatistics found = statistics_of(gradients, scale);
  EXPECT_NEAR(found.sum_of_squares, sum, 1e-12 * sum);
  EXPECT_EQ(found.num_zeros, zeros);
  EXPECT_FALSE(found.found_inf());
}

TEST(GradientStatisticsTest, FindsOneInfinityOrNan) {
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const size_t place : {size_t{0}, size_t{17}, size_t{19999}}) {
      auto values = normal_values(20000, 1, 1);
      values[place] = bad;
      EXPECT_TRUE(statistics_of({FloatArray(FloatType::kFloat16, values)}, 0x1p-32f).found_inf());
    }
  }
}

TEST(GradientStatisticsTest, LargestFiniteGradientsAreNoInfinity) {
  const std::vector<float> values(50000, std::numeric_limits<float>::max());
  EXPECT_FALSE(statistics_of({FloatArray(FloatType::kFloat32, values)}, 1).found_inf());
}

TEST(GradientStatisticsTest, NoGradientsGiveZero) {
  const GradientStatistics found = statistics_of({}, 1);
  EXPECT_EQ(found.sum_of_squares, 0);
  EXPECT_EQ(found.num_zeros, 0);
}

}  // namespace
}  // namespace meg::kernels
