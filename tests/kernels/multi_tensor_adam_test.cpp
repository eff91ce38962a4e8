#include "libmeg/kernels/optimizer/multi_tensor_adam.h"

#include <gtest/gtest.h>

#include "tests/kernels/adam_formula.h"

namespace meg::kernels {
namespace {

using test::adam_step;
using test::AdamState;
using test::FloatArray;
using test::kFloatTypes;
using test::PlainAdam;

TEST(MultiTensorAdamTest, MatchesThePlainFormula) {
  for (const bool adam_w_mode : {true, false}) {
    for (const auto gradient_type : kFloatTypes) {
      const AdamState before(1030, gradient_type, FloatType::kBFloat16, 1);
      AdamState after = before;
      AdamStep step = adam_step(3);
      step.adam_w_mode = adam_w_mode;
      AdamTensor tensor = after.tensor(0);
      multi_tensor_adam_cpu(&tensor, 1, step, 0, number_chunks(&tensor, 1));
      for (size_t i = 0; i < before.master.size(); i += 7) {
        const PlainAdam wanted(before, step, 0, i);
        ASSERT_NEAR(after.exp_avg[i], wanted.exp_avg, 4e-9) << i;
        ASSERT_NEAR(after.exp_avg_sq[i], wanted.exp_avg_sq, 1e-9) << i;
        ASSERT_NEAR(after.master[i], wanted.master, 2e-8) << i;
      }
    }
  }
}

TEST(MultiTensorAdamTest, WritesTheWeightRoundedFromTheMaster) {
  for (const auto weight_type : {FloatType::kFloat16, FloatType::kBFloat16}) {
    AdamState state(20000, FloatType::kFloat32, weight_type, 1);
    AdamTensor tensor = state.tensor(0);
    multi_tensor_adam_cpu(&tensor, 1, adam_step(1), 0, number_chunks(&tensor, 1));
    EXPECT_EQ(state.weight.floats(), FloatArray(weight_type, state.master).floats());
  }
}

TEST(MultiTensorAdamTest, FirstStepMovesByTheLearningRate) {
  AdamState state(3, FloatType::kFloat32, FloatType::kFloat32, 1);
  state.gradient = FloatArray(FloatType::kFloat32, {2, -3, 0});
  state.master = {0, 0, 5};
  state.exp_avg = state.exp_avg_sq = {0, 0, 0};
  AdamStep step = adam_step(1);
  step.groups[1] = {0.25f, 0};
  AdamTensor tensor = state.tensor(1);
  multi_tensor_adam_cpu(&tensor, 1, step, 0, number_chunks(&tensor, 1));
  EXPECT_NEAR(state.master[0], -0.25, 2e-6);
  EXPECT_NEAR(state.master[1], 0.25, 2e-6);
  EXPECT_EQ(state.master[2], 5);
}

TEST(MultiTensorAdamTest, ListOfTensorsEqualsOneByOneInAnyShares) {
  const std::vector<int64_t> counts = {5, 0, kChunkElements, 3 * kChunkElements + 1, 0, 77, 0};
  std::vector<AdamState> alone, together;
  for (size_t i = 0; i < counts.size(); ++i) {
    const FloatType type = kFloatTypes[i % 3];
    alone.emplace_back(counts[i], type, FloatType::kFloat16, static_cast<unsigned>(10 * i));
  }
  together = alone;
  const AdamStep step = adam_step(5);
  std::vector<AdamTensor> list;
  for (size_t i = 0; i < counts.size(); ++i) {
    AdamTensor one = alone[i].tensor(static_cast<int>(i % 2));
    multi_tensor_adam_cpu(&one, 1, step, 0, number_chunks(&one, 1));
    list.push_back(together[i].tensor(static_cast<int>(i % 2)));
  }
  const int64_t chunks = number_chunks(list.data(), 7);
  ASSERT_EQ(chunks, 1 + 0 + 1 + 4 + 0 + 1);
  multi_tensor_adam_cpu(list.data(), 7, step, 4, chunks);
  multi_tensor_adam_cpu(list.data(), 7, step, 0, 4);
  for (size_t i = 0; i < counts.size(); ++i) {
    EXPECT_EQ(test::bits_of(alone[i].master), test::bits_of(together[i].master)) << i;
    EXPECT_EQ(test::bits_of(alone[i].exp_avg_sq), test::bits_of(together[i].exp_avg_sq)) << i;
    EXPECT_EQ(alone[i].weight.floats(), together[i].weight.floats()) << i;
  }
}

TEST(MultiTensorAdamTest, BiasCorrectionsAreThoseOfTheFloatBetas) {
  EXPECT_EQ(adam_bias_correction(0.9f, 1), 1 - 0.9f);
  EXPECT_EQ(adam_bias_correction(0.999f, 1), 1 - 0.999f);
  EXPECT_EQ(adam_bias_correction(0.9f, 100000), 1);
}

TEST(MultiTensorAdamTest, TakesAnEmptyList) {
  EXPECT_EQ(number_chunks(static_cast<AdamTensor*>(nullptr), 0), 0);
  multi_tensor_adam_cpu(nullptr, 0, AdamStep(), 0, 0);
}

}  // namespace
}  // namespace meg::kernels
