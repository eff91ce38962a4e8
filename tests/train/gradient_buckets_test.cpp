#include "libmeg/train/internal/gradient_buckets.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_buffer.h"
#include "libmeg/model/rank_memory.h"
#include "tests/nn/small_model.h"

namespace meg::train {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

bool is_embedding(const nn::GptParameter& parameter) {
  return parameter.name == "embedding.word_embeddings.weight";
}

bool is_none(const nn::GptParameter& /*parameter*/) { return false; }

/// The numbers of parameters in each bucket, from the last one on.
std::vector<int64_t> lengths(std::vector<size_t> ends) {
  ends.insert(ends.begin(), 0);
  std::vector<int64_t> found;
  for (size_t i = ends.size(); i-- > 1;) {
    found.push_back(static_cast<int64_t>(ends[i] - ends[i - 1]));
  }
  return found;
}

/// Returns the lengths that a checkpoint of Megatron's distributed optimizer has.
std::vector<int64_t> lengths_in_checkpoints(const nn::GptModel& model, int64_t bucket_size) {
  std::vector<checkpoint::FlatParameter> parameters;
  for (const nn::GptParameter& parameter : model.parameters()) {
    parameters.push_back(
        {.elements = parameter.tensor.numel(), .is_shared_embedding = is_embedding(parameter)});
  }
  const checkpoint::FlatBuffer buffer =
      checkpoint::lay_out_flat_buffer(parameters, {.alignment = model::padded_elements(1),
                                                   .bucket_size = bucket_size,
                                                   .splits_shared_embedding = true});
  std::vector<int64_t> found(buffer.buckets.size());
  for (const auto& place : buffer.places) ++found[place.bucket];
  return found;
}

TEST(GradientBuckets, AreThoseOfMegatronsBuffer) {
  const nn::GptModel model = test::small_model(test::small_config(), {});
  for (const int64_t size : {int64_t{1}, int64_t{64}, int64_t{500}, int64_t{4000}, kUnlimited}) {
    EXPECT_EQ(lengths(bucket_ends(model.parameters(), size, is_embedding)),
              lengths_in_checkpoints(model, size))
        << size;
  }
  EXPECT_EQ(bucket_ends(model.parameters(), kUnlimited, is_none),
            std::vector{model.parameters().size()});
}

TEST(GradientBuckets, PartsOfALayoutHoldEveryElementOnce) {
  const nn::GptModel model = test::small_model(test::small_config(), {});
  const auto parameters = model.parameters();
  for (const int64_t parts : {1, 2, 3}) {
    std::vector<at::Tensor> times;
    for (const nn::GptParameter& parameter : parameters) {
      times.push_back(at::zeros({parameter.tensor.numel()}, at::kLong));
    }
    for (int64_t part = 0; part < parts; ++part) {
      // The embedding is whole on one of the ranks, as an expert is that others do not have.
      const FlatLayout layout(parameters, bucket_ends(parameters, 500, is_embedding),
                              [&](const nn::GptParameter& parameter) {
                                return is_embedding(parameter) && part == 0
                                           ? FlatLayout::Division{}
                                           : FlatLayout::Division{.parts = parts, .own = part};
                              });
      const at::Tensor places = at::zeros({layout.part_elements()}, at::kLong);
      for (const FlatLayout::Segment& segment : layout.segments()) {
        if (is_embedding(parameters[segment.parameter]) && part > 0) continue;
        times[segment.parameter].narrow(0, segment.first, segment.count).add_(1);
        places.narrow(0, segment.place, segment.count).add_(1);
      }
      EXPECT_LE(places.max().item<int64_t>(), 1);
    }
    for (const at::Tensor& of : times) EXPECT_TRUE(of.eq(1).all().item<bool>()) << parts;
  }
}

TEST(GradientBuckets, AreReadyWhileTheLayersBeforeThemGoBackward) {
  nn::GptOptions options;
  options.hidden_dropout = options.attention_dropout = 0;
  for (const auto recompute :
       {model::RecomputeGranularity::kNone, model::RecomputeGranularity::kFull}) {
    options.recompute_granularity = recompute;
    nn::GptModel model = test::small_model(test::small_config(), options);
    const auto parameters = model.parameters();
    const FlatLayout layout(parameters, bucket_ends(parameters, 1, is_none),
                            [](const nn::GptParameter&) { return FlatLayout::Division{}; });
    ASSERT_EQ(layout.buckets().size(), parameters.size());
    std::vector<size_t> ready;
    GradientBuckets buckets(parameters, layout, [&](size_t bucket) {
      EXPECT_TRUE(parameters[bucket].tensor.grad().defined());
      ready.push_back(bucket);
    });
    const at::Tensor tokens = test::small_tokens(model.config());
    const auto backward = [&] {
      const auto loss = model.loss({.tokens = tokens}, tokens.roll(-1, 1));
      ASSERT_TRUE(loss.has_value()) << loss.status().message();
      loss->sum().backward();
    };
    buckets.begin_step();
    backward();
    EXPECT_TRUE(ready.empty());
    buckets.expect(/*last=*/true);
    backward();
    EXPECT_EQ(ready.size(), parameters.size());
    // The embedding is the output layer, too, and has all of its gradient at the very end.
    EXPECT_TRUE(is_embedding(parameters[ready.back()]) ||
                is_embedding(parameters[ready[ready.size() - 2]]));
    EXPECT_GT(ready.front(), parameters.size() / 2);
    EXPECT_ANY_THROW(backward());
  }
}

}  // namespace
}  // namespace meg::train
