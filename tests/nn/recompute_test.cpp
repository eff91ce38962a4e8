#include "libmeg/nn/operators/internal/recompute.h"

#include <gtest/gtest.h>

#include <vector>

#include "libmeg/nn/layers/internal/dropout.h"
#include "tests/nn/small_model.h"

namespace meg::nn {
namespace {

using test::gradients_of;
using test::small_config;
using test::small_llama_config;
using test::small_model;

GptOptions dropping() {
  GptOptions options;
  options.hidden_dropout = 0.3;
  options.attention_dropout = 0.2;
  return options;
}

/// Two steps, so that the generators' states after a recomputed one count too.
std::vector<at::Tensor> two_steps(const model::GptConfig& config, const GptOptions& options) {
  GptModel model = small_model(config, options);
  std::vector<at::Tensor> gradients = gradients_of(model);
  for (at::Tensor& gradient : gradients_of(model)) gradients.push_back(std::move(gradient));
  return gradients;
}

void expect_equal_gradients(const model::GptConfig& config, const GptOptions& recomputing) {
  const std::vector<at::Tensor> expected = two_steps(config, dropping());
  const std::vector<at::Tensor> found = two_steps(config, recomputing);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(at::equal(found[i], expected[i])) << "parameter " << i;
  }
}

TEST(RecomputeTest, SelectiveGradientsAreEqualToTheBit) {
  GptOptions options = dropping();
  options.recompute_granularity = model::RecomputeGranularity::kSelective;
  expect_equal_gradients(small_config(), options);
  expect_equal_gradients(small_llama_config(), options);
}

TEST(RecomputeTest, UniformGradientsAreEqualToTheBit) {
  GptOptions options = dropping();
  options.recompute_granularity = model::RecomputeGranularity::kFull;
  for (const int64_t layers : {1, 2, 5, 9}) {
    options.recompute_num_layers = layers;
    expect_equal_gradients(small_config(), options);
  }
}

TEST(RecomputeTest, BlockGradientsAreEqualToTheBit) {
  GptOptions options = dropping();
  options.recompute_granularity = model::RecomputeGranularity::kFull;
  options.recompute_method = RecomputeMethod::kBlock;
  for (const int64_t layers : {1, 3, 5, 9}) {
    options.recompute_num_layers = layers;
    expect_equal_gradients(small_config(), options);
  }
}

TEST(RecomputeTest, ASegmentThatThrowsWhenRunAgainLeavesTheGeneratorsWhereTheyWere) {
  auto random = RandomStates::create(at::kCPU, 3);
  ASSERT_TRUE(random.has_value());
  int runs = 0;
  const auto segment = [&](const std::vector<at::Tensor>& inputs) {
    const at::Tensor output =
        dropout(inputs[0], 0.5, random->generator(RandomStates::Stream::kDataParallel));
    TORCH_CHECK(++runs < 2, "out of memory");
    return output;
  };
  const at::Tensor input = at::ones(64).requires_grad_();
  const at::Tensor output = recompute(segment, {input}, *random);
  const auto before = random->save();
  EXPECT_THROW(output.sum().backward(), c10::Error);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(random->save()->data_parallel, before->data_parallel);
}

TEST(RecomputeTest, DropoutWithoutRecomputationDiffersInEachPass) {
  GptModel model = small_model(small_config(), dropping());
  const std::vector<at::Tensor> first = gradients_of(model);
  const std::vector<at::Tensor> second = gradients_of(model);
  EXPECT_FALSE(at::equal(first[0], second[0]));
}

TEST(RecomputeTest, KeepsOnlyTheInputs) {
  auto random = RandomStates::create(at::kCPU, 1);
  ASSERT_TRUE(random.has_value());
  const at::Tensor input = at::arange(4.0f).requires_grad_(true);
  int runs = 0;
  const at::Tensor output = recompute(
      [&](const std::vector<at::Tensor>& inputs) {
        ++runs;
        return (inputs[0] * inputs[0]).sum();
      },
      {input}, *random);
  EXPECT_EQ(runs, 1);
  output.backward();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(at::equal(input.grad(), input.detach() * 2));
}

}  // namespace
}  // namespace meg::nn
