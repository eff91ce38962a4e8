// A model whose layers are shared with other ranks. That several ranks compute what one does is
// seen in tests/train/pretrain_golden_test.cpp.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "tests/nn/small_model.h"
#include "tests/parallel/fake_process_group.h"

namespace meg::nn {
namespace {

using test::FakeProcessGroup;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr int kRanks = 2;

ModelPart part_of(const std::shared_ptr<FakeProcessGroup>& group, bool sequence_parallel) {
  ModelPart part;
  part.sizes.tensor_model_parallel_size = kRanks;
  part.tensor_rank = group->rank();
  part.tensor_parallel = {.group = group, .sequence_parallel = sequence_parallel};
  return part;
}

/// What a step of one micro-batch exchanges.
std::map<std::string, FakeProcessGroup::Count> counts_of_a_step(bool sequence_parallel) {
  const auto group = std::make_shared<FakeProcessGroup>(0, kRanks);
  GptOptions options;
  options.hidden_dropout = options.attention_dropout = 0;
  GptModel model =
      test::small_model(test::small_config(), options, part_of(group, sequence_parallel));
  const at::Tensor tokens = test::small_tokens(model.config());
  const auto losses =
      model.loss_and_gradients({.tokens = tokens}, tokens.roll(-1, 1), at::ones(tokens.sizes()));
  EXPECT_TRUE(losses.has_value()) << losses.status().message();
  return group->counts();
}

// h: hidden states of a micro-batch, t: one number for each token; fp32.
constexpr int64_t kTokens = 2 * 12 * 4;
constexpr int64_t kHidden = kTokens * 16;
constexpr int64_t kLayers = 5;

TEST(TensorParallelTest, LayersSumFourTimesAStep) {
  // Each layer sums after both of its blocks, and on the way back; the embedding and the output
  // layer; the loss its largest logits, its labels' logits and its sums of exponentials.
  EXPECT_THAT(counts_of_a_step(/*sequence_parallel=*/false),
              UnorderedElementsAre(Pair(
                  "all_reduce",
                  FakeProcessGroup::Count{.calls = 4 * kLayers + 2 + 3,
                                          .bytes = (4 * kLayers + 2) * kHidden + 3 * kTokens})));
}

TEST(TensorParallelTest, SplitSequencesAreGatheredAndScattered) {
  EXPECT_THAT(
      counts_of_a_step(/*sequence_parallel=*/true),
      UnorderedElementsAre(
          Pair("all_reduce",
               FakeProcessGroup::Count{.calls = 1 + 3, .bytes = kHidden + 3 * kTokens}),
          Pair("all_gather", FakeProcessGroup::Count{.calls = 4 * kLayers + 2,
                                                     .bytes = (4 * kLayers + 2) * kHidden}),
          Pair("reduce_scatter", FakeProcessGroup::Count{.calls = 4 * kLayers + 1,
                                                         .bytes = (4 * kLayers + 1) * kHidden})));
}

TEST(TensorParallelTest, FirstWeightsAreThoseOfOneRankCut) {
  model::GptConfig config = test::small_llama_config();
  config.softmax_type = "learnable";
  const GptModel whole = test::small_model(config);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto group = std::make_shared<FakeProcessGroup>(rank, kRanks);
    const GptModel part = test::small_model(config, {}, part_of(group, false));
    for (size_t i = 0; i < part.parameters().size(); ++i) {
      const GptParameter& cut = part.parameters()[i];
      const at::Tensor& all = whole.parameters()[i].tensor;
      at::Tensor expected = all;
      if (cut.name.ends_with("linear_fc1.weight")) {  // gates and what they open, each cut
        const auto halves = all.chunk(2, 0);
        expected = at::cat({halves[0].chunk(kRanks, 0)[static_cast<size_t>(rank)],
                            halves[1].chunk(kRanks, 0)[static_cast<size_t>(rank)]});
      } else if (cut.partition != model::Partition::kReplicated) {
        const int64_t axis = cut.partition == model::Partition::kColumns ? 1 : 0;
        expected = all.chunk(kRanks, axis)[static_cast<size_t>(rank)];
      }
      EXPECT_TRUE(at::equal(cut.tensor, expected)) << cut.name;
    }
  }
}

TEST(TensorParallelTest, LogitsAreThoseOfAllRanks) {
  const auto group = std::make_shared<FakeProcessGroup>(0, kRanks);
  GptModel model = test::small_model(test::small_config(), {}, part_of(group, false));
  const auto logits = model.logits({.tokens = test::small_tokens(model.config())});
  ASSERT_TRUE(logits.has_value()) << logits.status().message();
  EXPECT_EQ(logits->size(2), model.config().padded_vocab_size);
}

TEST(TensorParallelTest, RefusesGroupsThatRanksCannotShare) {
  const auto group = std::make_shared<FakeProcessGroup>(0, kRanks);
  model::GptConfig config = test::small_llama_config();
  config.num_query_groups = 1;
  const auto shared = GptModel::create(config, {}, part_of(group, false));
  ASSERT_FALSE(shared.has_value());
  EXPECT_THAT(shared.error().message(), HasSubstr("num_query_groups: expected a multiple of 2"));
}

}  // namespace
}  // namespace meg::nn
