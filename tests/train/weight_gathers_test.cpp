#include "libmeg/train/internal/weight_gathers.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "libmeg/train/internal/gradient_buckets.h"
#include "tests/nn/small_model.h"

namespace meg::train {
namespace {

using ::testing::ElementsAre;

/// Runs its function when it is waited for.
struct FakeGather : parallel::Work {
  explicit FakeGather(std::function<Status()> told) : work(std::move(told)) {}

  Status wait() override { return work(); }

  std::function<Status()> work;
};

bool is_alone(const nn::GptParameter& /*parameter*/) { return true; }

/// The buckets have one parameter each.
FlatLayout layout_of(const ModelChunks& model) {
  return FlatLayout(model.parameters(), bucket_ends(model.parameters(), 1, is_alone),
                    [](const nn::GptParameter&) { return FlatLayout::Division{}; });
}

/// waited(bucket): called when a forward pass waits.
std::vector<parallel::PendingWork> gathers_of(const FlatLayout& layout,
                                              const std::function<Status(size_t)>& waited) {
  std::vector<parallel::PendingWork> gathers;
  for (size_t bucket = 0; bucket < layout.buckets().size(); ++bucket) {
    gathers.push_back(std::make_unique<FakeGather>([=] { return waited(bucket); }));
  }
  return gathers;
}

using Pass = std::function<at::Tensor(nn::GptModel&)>;

at::Tensor cached_pass(nn::GptModel& model) {
  auto cache = nn::KvCache::create(model.config(), model.options(), model.part(), 1, 12);
  EXPECT_TRUE(cache.has_value()) << cache.status().message();
  const std::vector<nn::CachedTokens> sequences = {{.slot = 0, .count = 12}};
  const auto found = model.hidden_states(
      {.tokens = test::small_tokens(model.config())[0], .sequences = sequences}, *cache);
  EXPECT_TRUE(found.has_value()) << found.status().message();
  return *found;
}

at::Tensor training_pass(nn::GptModel& model) {
  const at::Tensor tokens = test::small_tokens(model.config());
  const auto losses =
      model.loss_and_gradients({.tokens = tokens}, tokens.roll(-1, 1), at::ones({2, 12}));
  EXPECT_TRUE(losses.has_value()) << losses.status().message();
  return *losses;
}

at::Tensor evaluating_pass(nn::GptModel& model) {
  const auto logits = model.logits({.tokens = test::small_tokens(model.config())});
  EXPECT_TRUE(logits.has_value()) << logits.status().message();
  return *logits;
}

TEST(WeightGathers, NoPassUsesParametersBeforeTheyAreGathered) {
  for (const auto recompute :
       {model::RecomputeGranularity::kNone, model::RecomputeGranularity::kFull}) {
    for (const auto& config : {test::small_config(), test::small_llama_config()}) {
      nn::GptOptions options;
      options.recompute_granularity = recompute;
      options.hidden_dropout = options.attention_dropout = 0;
      nn::GptModel model = test::small_model(config, options);
      const FlatLayout layout = layout_of(model);
      WeightGathers gathers(model, layout);
      for (const Pass& pass : {Pass(training_pass), Pass(evaluating_pass), Pass(cached_pass)}) {
        const at::Tensor expected = pass(model);
        std::vector<at::Tensor> weights;
        for (const nn::GptParameter& parameter : model.parameters()) {
          weights.push_back(parameter.tensor.detach().clone());
          parameter.tensor.detach().fill_(std::numeric_limits<float>::quiet_NaN());
        }
        gathers.begin(gathers_of(layout, [&](size_t bucket) {
          model.parameters()[bucket].tensor.detach().copy_(weights[bucket]);
          return Status();
        }));
        EXPECT_TRUE(at::equal(pass(model), expected));
      }
    }
  }
}

TEST(WeightGathers, ALayerIsWaitedForWhenThoseBeforeItAreComputed) {
  nn::GptOptions options;
  options.hidden_dropout = 0.1;
  nn::GptModel model = test::small_model(test::small_config(), options);
  const FlatLayout layout = layout_of(model);
  // Each layer draws its dropout, so that states show how far a pass has come.
  std::vector<at::Tensor> states;
  std::vector<int64_t> parameters_at_once;
  WeightGathers gathers(model, layout);
  gathers.begin(gathers_of(layout, [&](size_t bucket) {
    EXPECT_EQ(bucket, states.size());
    states.push_back(model.random_states().snapshot()[0]);
    const bool same = bucket > 0 && at::equal(states[bucket], states[bucket - 1]);
    if (!same) parameters_at_once.push_back(0);
    ++parameters_at_once.back();
    return Status();
  }));
  training_pass(model);
  // Embeddings, five layers, the final norm.
  EXPECT_THAT(parameters_at_once, ElementsAre(2, 12, 12, 12, 12, 12, 2));
}

TEST(WeightGathers, AChunkWaitsForItsOwnAndThoseBefore) {
  std::vector<nn::GptModel> chunks;
  chunks.push_back(test::small_model(test::small_config()));
  chunks.push_back(test::small_model(test::small_config()));
  const ModelChunks model(chunks);
  const FlatLayout layout = layout_of(model);
  size_t waited = 0;
  WeightGathers gathers(model, layout);
  const auto begin = [&] {
    gathers.begin(gathers_of(layout, [&](size_t /*bucket*/) {
      ++waited;
      return Status();
    }));
  };
  begin();
  evaluating_pass(chunks[0]);
  EXPECT_EQ(waited, chunks[0].parameters().size());
  evaluating_pass(chunks[1]);
  EXPECT_EQ(waited, layout.buckets().size());
  begin();
  EXPECT_TRUE(gathers.finish().ok());
  EXPECT_EQ(waited, 2 * layout.buckets().size());
}

TEST(WeightGathers, APassEndsWithTheErrorOfTheGatherThatItWaitsFor) {
  nn::GptModel model = test::small_model(test::small_config());
  const FlatLayout layout = layout_of(model);
  {
    WeightGathers gathers(model, layout);
    gathers.begin(gathers_of(layout, [](size_t bucket) {
      return bucket == 5 ? make_error(StatusCode::kIoError, "bucket {} is lost", bucket) : Status();
    }));
    const auto found = model.logits({.tokens = test::small_tokens(model.config())});
    EXPECT_EQ(found.status().message(), "bucket 5 is lost");
    EXPECT_EQ(found.status().code(), StatusCode::kIoError);
  }
  evaluating_pass(model);
}

}  // namespace
}  // namespace meg::train
