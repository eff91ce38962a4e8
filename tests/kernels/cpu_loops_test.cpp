#include "libmeg/kernels/cpu/cpu_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/float_array.h"

namespace meg::kernels {
namespace {

using test::bits_of;
using test::normal_values;

constexpr int64_t kCounts[] = {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 100, 1024};

std::vector<InstructionSet> faster_sets() {
  std::vector<InstructionSet> sets;
  for (const auto set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set <= best_instruction_set()) sets.push_back(set);
  }
  return sets;
}

/// All outputs of all loops on `count` elements.
std::vector<float> outputs_of(const CpuLoops& loops, int64_t count) {
  auto a = normal_values(count, 3, 1), b = normal_values(count, 1, 2);
  auto c = normal_values(count, 0.1, 3), d = normal_values(count, 1, 4);
  for (float& value : d) value = std::abs(value);
  if (count > 20) {
    a[4] = -std::numeric_limits<float>::infinity();
    a[9] = -200;
    a[17] = 0;
  }
  std::vector<float> all;
  const auto keep = [&](const std::vector<float>& x) { all.insert(all.end(), x.begin(), x.end()); };
  all.push_back(loops.maximum(a.data(), count));
  all.push_back(static_cast<float>(loops.sum_exp(a.data(), 2.5f, count)));
  std::vector<float> output(a.size());
  loops.scaled_exp(a.data(), 2.5f, 0.7f, output.data(), count);
  keep(output);
  loops.bias_gelu(b.data(), c.data(), output.data(), count);
  keep(output);
  loops.bias_gelu_backward(c.data(), b.data(), c.data(), output.data(), count);
  keep(output);
  loops.swiglu(b.data(), c.data(), output.data(), count);
  keep(output);
  std::vector<float> other(a.size());
  loops.swiglu_backward(c.data(), b.data(), c.data(), output.data(), other.data(), count);
  keep(output), keep(other);
  double sum = 1;
  int64_t zeros = 1;
  loops.square_sum(a.data(), count, &sum, &zeros);
  all.push_back(static_cast<float>(sum));
  all.push_back(static_cast<float>(zeros));
  loops.adam({0.5f, 0.9f, 0.9f, 0.999f, 0.3f, 0.1f, 1e-8f, 1e-2f, 0.1f, true}, c.data(), b.data(),
             output.data(), d.data(), count);
  keep(b), keep(output), keep(d);
  return all;
}

TEST(CpuLoopsTest, EveryInstructionSetGivesTheSameBits) {
  for (const int64_t count : kCounts) {
    const std::vector<float> portable = outputs_of(kPortableCpuLoops, count);
    for (const auto set : faster_sets()) {
      EXPECT_EQ(bits_of(portable), bits_of(outputs_of(cpu_loops(set), count)))
          << instruction_set_name(set) << ", " << count << " elements";
    }
  }
}

TEST(CpuLoopsTest, ExponentialIsWithinTwoUnitsInTheLastPlace) {
  for (float x = -87; x < 88; x += 0.00317f) {
    float y = 0;
    kPortableCpuLoops.scaled_exp(&x, 0, 1, &y, 1);
    const double wanted = std::exp(double{x});
    ASSERT_NEAR(y, wanted, 2.4e-7 * wanted) << x;
  }
}

TEST(CpuLoopsTest, ExponentialOfFarEnds) {
  const std::vector<float> x = {-87.5f, -1e30f, -std::numeric_limits<float>::infinity(), 89, 1e30f};
  std::vector<float> y(x.size());
  kPortableCpuLoops.scaled_exp(x.data(), 0, 1, y.data(), 5);
  EXPECT_EQ(y[0] + y[1] + y[2], 0);
  EXPECT_EQ(y[3], y[4]);
  EXPECT_NEAR(y[4] / std::exp(88.0), 1, 1e-6);
  const float nan = std::nanf("");
  kPortableCpuLoops.scaled_exp(&nan, 0, 1, y.data(), 1);
  EXPECT_TRUE(std::isnan(y[0]));
}

TEST(CpuLoopsTest, NothingIsWrittenPastTheEnd) {
  for (const int64_t count : kCounts) {
    auto input = normal_values(count + 1, 1, 1);
    std::vector<float> output(input.size(), 42);
    for (const auto& loops : {kPortableCpuLoops, cpu_loops(best_instruction_set())}) {
      loops.scaled_exp(input.data(), 0, 1, output.data(), count);
      loops.bias_gelu(input.data(), input.data(), output.data(), count);
      loops.bias_gelu_backward(input.data(), input.data(), input.data(), output.data(), count);
      loops.swiglu(input.data(), input.data(), output.data(), count);
      loops.swiglu_backward(input.data(), input.data(), input.data(), output.data(), output.data(),
                            count);
      EXPECT_EQ(output.back(), 42) << count;
    }
  }
}

}  // namespace
}  // namespace meg::kernels
