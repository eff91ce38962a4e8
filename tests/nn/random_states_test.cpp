#include "libmeg/nn/random_states.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "libmeg/nn/layers/internal/dropout.h"
#include "tests/nn/small_model.h"

namespace meg::nn {
namespace {

using test::gradients_of;
using test::small_config;
using test::small_model;
using Stream = RandomStates::Stream;

TEST(RandomStatesTest, RestoredBytesDropAlike) {
  GptModel model = small_model(small_config());
  gradients_of(model);
  const auto saved = model.random_states().save();
  ASSERT_TRUE(saved.has_value()) << saved.error().message();
  EXPECT_EQ(saved->data_parallel.size(), 5056u);
  const std::vector<at::Tensor> first = gradients_of(model);
  ASSERT_TRUE(model.random_states().restore(*saved).ok());
  const std::vector<at::Tensor> second = gradients_of(model);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], second[i]));
}

TEST(RandomStatesTest, StatesAreApart) {
  auto states = RandomStates::create(at::kCPU, 3);
  auto others = RandomStates::create(at::kCPU, 3);
  ASSERT_TRUE(states.has_value() && others.has_value());
  const at::Tensor ones = at::ones(64);
  dropout(ones, 0.5, others->generator(Stream::kModelParallel));
  EXPECT_TRUE(at::equal(dropout(ones, 0.5, states->generator(Stream::kDataParallel)),
                        dropout(ones, 0.5, others->generator(Stream::kDataParallel))));
  EXPECT_FALSE(at::equal(dropout(ones, 0.5, states->generator(Stream::kModelParallel)),
                         dropout(ones, 0.5, others->generator(Stream::kModelParallel))));
}

TEST(RandomStatesTest, TensorRanksShareOneStateOnly) {
  auto rank0 = RandomStates::create(at::kCPU, 3, 0);
  auto rank1 = RandomStates::create(at::kCPU, 3, 1);
  ASSERT_TRUE(rank0.has_value() && rank1.has_value());
  EXPECT_EQ(rank0->save()->data_parallel, rank1->save()->data_parallel);
  EXPECT_NE(rank0->save()->model_parallel, rank1->save()->model_parallel);
}

TEST(RandomStatesTest, RefusesAnotherDevicesState) {
  auto states = RandomStates::create(at::kCPU, 3);
  ASSERT_TRUE(states.has_value());
  auto saved = states->save();
  saved->model_parallel.resize(16);
  EXPECT_EQ(states->restore(*saved).message(),
            "random state model parallel: expected 5056 bytes for a generator on cpu, found 16");
}

TEST(RandomStatesTest, ForkTakesItsStateBack) {
  auto states = RandomStates::create(at::kCPU, 3);
  auto others = RandomStates::create(at::kCPU, 3);
  ASSERT_TRUE(states.has_value() && others.has_value());
  const at::Tensor before = at::globalContext().defaultGenerator(at::kCPU).get_state();
  at::Tensor first;
  {
    const ForkedDefaultGenerator fork(at::kCPU, states->generator(Stream::kModelParallel));
    first = at::rand(8);
  }
  EXPECT_TRUE(at::equal(before, at::globalContext().defaultGenerator(at::kCPU).get_state()));
  at::Generator& other = others->generator(Stream::kModelParallel);
  EXPECT_TRUE(at::equal(first, at::rand(8, other)));
  EXPECT_TRUE(
      at::equal(at::rand(8, states->generator(Stream::kModelParallel)), at::rand(8, other)));
}

TEST(DropoutTest, KeepsTheMeanAndItsShare) {
  auto states = RandomStates::create(at::kCPU, 3);
  const at::Tensor ones = at::ones({100, 1000});
  const at::Tensor dropped = dropout(ones, 0.25, states->generator(Stream::kDataParallel));
  EXPECT_NEAR(dropped.mean().item<double>(), 1, 0.01);
  EXPECT_NEAR((dropped == 0).to(at::kFloat).mean().item<double>(), 0.25, 0.01);
  EXPECT_TRUE(at::equal(ones, dropout(ones, 0, states->generator(Stream::kDataParallel))));
}

}  // namespace
}  // namespace meg::nn
