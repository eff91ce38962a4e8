#include "libmeg/nn/layers/kv_cache.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libmeg/base/cpu.h"
#include "tests/nn/small_model.h"

namespace meg::nn {
namespace {

using test::small_config;
using test::small_llama_config;
using test::small_model;
using ::testing::HasSubstr;

std::vector<model::GptConfig> configs() {
  model::GptConfig normed = small_llama_config();
  normed.qk_layernorm = true;
  model::GptConfig one_group = small_config();
  one_group.num_query_groups = 1;
  model::GptConfig off_by_one = small_llama_config();
  off_by_one.softmax_type = "off-by-one";
  model::GptConfig sinks = small_config();
  sinks.softmax_type = "learnable";
  return {small_config(), small_llama_config(), normed, one_group, off_by_one, sinks};
}

KvCache cache_of(const GptModel& model, int64_t slots) {
  Result<KvCache> cache = KvCache::create(model.config(), model.options(), model.part(), slots,
                                          model.config().max_position_embeddings);
  EXPECT_TRUE(cache.has_value()) << cache.status().message();
  return std::move(*cache);
}

at::Tensor tokens_from(int64_t first, int64_t count) {
  return at::arange(first, first + count).mul(7919).remainder(24);
}

/// Logits of all new tokens.
at::Tensor step(GptModel& model, KvCache& cache, const std::vector<CachedTokens>& sequences,
                const at::Tensor& tokens) {
  const c10::InferenceMode inference;
  const auto states = model.hidden_states({.tokens = tokens, .sequences = sequences}, cache);
  EXPECT_TRUE(states.has_value()) << states.status().message();
  const auto logits = model.logits_of((*states)[0], model.config().padded_vocab_size);
  EXPECT_TRUE(logits.has_value()) << logits.status().message();
  return *logits;
}

void expect_same(const at::Tensor& found, const at::Tensor& wanted, double tolerance = 1e-5) {
  EXPECT_LT((found - wanted).abs().max().item<double>(), tolerance);
}

TEST(KvCacheTest, SequencesOfDifferentLengthsGiveTheLogitsOfWholeForwardPasses) {
  const c10::NoGradGuard without_gradients;
  for (const model::GptConfig& config : configs()) {
    GptModel model = small_model(config);
    model.set_training(false);
    const at::Tensor a = tokens_from(0, 12), b = tokens_from(50, 12);
    const at::Tensor whole_a = (*model.logits({.tokens = a.unsqueeze(0)}))[0];
    const at::Tensor whole_b = (*model.logits({.tokens = b.unsqueeze(0)}))[0];
    KvCache cache = cache_of(model, 4);
    expect_same(step(model, cache, {{2, 5}}, a.narrow(0, 0, 5)), whole_a.narrow(0, 0, 5));
    // One grows by a token while the other starts, in another slot.
    expect_same(
        step(model, cache, {{2, 1}, {0, 3}}, at::cat({a.narrow(0, 5, 1), b.narrow(0, 0, 3)})),
        at::cat({whole_a.narrow(0, 5, 1), whole_b.narrow(0, 0, 3)}));
    expect_same(
        step(model, cache, {{0, 1}, {2, 1}}, at::cat({b.narrow(0, 3, 1), a.narrow(0, 6, 1)})),
        at::cat({whole_b.narrow(0, 3, 1), whole_a.narrow(0, 6, 1)}));
    // Several new tokens after cached ones.
    expect_same(
        step(model, cache, {{0, 4}, {2, 1}}, at::cat({b.narrow(0, 4, 4), a.narrow(0, 7, 1)})),
        at::cat({whole_b.narrow(0, 4, 4), whole_a.narrow(0, 7, 1)}));
    EXPECT_EQ(cache.length(0), 8);
    EXPECT_EQ(cache.length(2), 8);
    // A slot starts over.
    cache.cut(2, 0);
    expect_same(step(model, cache, {{2, 2}}, b.narrow(0, 0, 2)), whole_b.narrow(0, 0, 2));
  }
}

TEST(KvCacheTest, SlotsCanBeRearranged) {
  const c10::NoGradGuard without_gradients;
  GptModel model = small_model(small_llama_config());
  model.set_training(false);
  const at::Tensor a = tokens_from(0, 6), b = tokens_from(50, 4);
  const at::Tensor whole_a = (*model.logits({.tokens = a.unsqueeze(0)}))[0];
  const at::Tensor whole_b = (*model.logits({.tokens = b.unsqueeze(0)}))[0];
  KvCache cache = cache_of(model, 3);
  step(model, cache, {{0, 5}, {1, 3}}, at::cat({a.narrow(0, 0, 5), b.narrow(0, 0, 3)}));
  ASSERT_TRUE(cache.rearrange(std::vector<int64_t>{1, 0, 1}).ok());
  EXPECT_EQ(cache.length(0), 3);
  EXPECT_EQ(cache.length(1), 5);
  expect_same(step(model, cache, {{0, 1}, {1, 1}, {2, 1}},
                   at::cat({b.narrow(0, 3, 1), a.narrow(0, 5, 1), b.narrow(0, 3, 1)})),
              at::stack({whole_b[3], whole_a[5], whole_b[3]}));
}

TEST(KvCacheTest, ASequencesBitsDoNotDependOnTheOthers) {
  if (best_instruction_set() == InstructionSet::kPortable) GTEST_SKIP() << "LibTorch's products";
  for (const model::GptConfig& config : configs()) {
    GptModel model = small_model(config);
    const at::Tensor a = tokens_from(0, 6), b = tokens_from(50, 5);
    KvCache alone = cache_of(model, 3), among = cache_of(model, 3);
    step(model, alone, {{0, 5}}, a.narrow(0, 0, 5));
    step(model, among, {{2, 5}}, a.narrow(0, 0, 5));
    step(model, among, {{1, 3}}, b.narrow(0, 0, 3));
    step(model, among, {{0, 4}}, b.narrow(0, 0, 4));
    const at::Tensor single = step(model, alone, {{0, 1}}, a.narrow(0, 5, 1));
    const at::Tensor batched =
        step(model, among, {{0, 1}, {1, 1}, {2, 1}},
             at::cat({b.narrow(0, 4, 1), b.narrow(0, 3, 1), a.narrow(0, 5, 1)}));
    EXPECT_TRUE(at::equal(single[0], batched[2]));
  }
}

TEST(KvCacheTest, SixteenBitModelsAreNearTheirWholeForwardPasses) {
  const c10::NoGradGuard without_gradients;
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    GptOptions options;
    options.params_dtype = type;
    GptModel model = small_model(small_llama_config(), options);
    model.set_training(false);
    const at::Tensor tokens = tokens_from(0, 6);
    const at::Tensor whole = (*model.logits({.tokens = tokens.unsqueeze(0)}))[0];
    KvCache cache = cache_of(model, 1);
    step(model, cache, {{0, 5}}, tokens.narrow(0, 0, 5));
    const double tolerance = whole.abs().max().item<double>() * (type == at::kHalf ? 4e-3 : 3e-2);
    expect_same(step(model, cache, {{0, 1}}, tokens.narrow(0, 5, 1))[0], whole[5], tolerance);
  }
}

TEST(KvCacheTest, CachedTokensAreTurnedAndNormedAsOthers) {
  const c10::NoGradGuard without_gradients;
  GptOptions options;
  options.use_rope_scaling = true;
  options.rotary_base = 5e7;  // slow enough for the scaling to matter in heads this small
  options.rotary_seq_len_interpolation_factor = 2;
  options.apply_layernorm_1p = true;
  model::GptConfig config = small_llama_config();
  config.swiglu = config.gated_linear_unit = false;
  options.squared_relu = true;
  GptModel model = small_model(config, options);
  model.set_training(false);
  const at::Tensor tokens = tokens_from(0, 12);
  const at::Tensor whole = (*model.logits({.tokens = tokens.unsqueeze(0)}))[0];
  KvCache cache = cache_of(model, 1);
  expect_same(step(model, cache, {{0, 7}}, tokens.narrow(0, 0, 7)), whole.narrow(0, 0, 7));
  for (int64_t i = 7; i < 12; ++i) {
    expect_same(step(model, cache, {{0, 1}}, tokens.narrow(0, i, 1))[0], whole[i]);
  }
}

TEST(KvCacheTest, Fp32ResidualsAreNearTheWholeForwardPass) {
  const c10::NoGradGuard without_gradients;
  GptOptions options;
  options.params_dtype = at::kBFloat16;
  options.fp32_residual_connection = true;
  GptModel model = small_model(small_config(), options);
  model.set_training(false);
  const at::Tensor tokens = tokens_from(0, 6);
  const at::Tensor whole = (*model.logits({.tokens = tokens.unsqueeze(0)}))[0];
  KvCache cache = cache_of(model, 1);
  step(model, cache, {{0, 5}}, tokens.narrow(0, 0, 5));
  expect_same(step(model, cache, {{0, 1}}, tokens.narrow(0, 5, 1))[0], whole[5],
              whole.abs().max().item<double>() * 3e-2);
}

TEST(KvCacheTest, WhatDoesNotFitIsAnError) {
  GptModel model = small_model(small_config());
  EXPECT_EQ(KvCache::create(model.config(), model.options(), {}, 0, 4).status().code(),
            StatusCode::kInvalidArgument);
  KvCache cache = cache_of(model, 2);
  const auto error_of = [&](const std::vector<CachedTokens>& sequences, const at::Tensor& tokens) {
    return model.hidden_states({.tokens = tokens, .sequences = sequences}, cache).status();
  };
  EXPECT_THAT(error_of({{2, 1}}, tokens_from(0, 1)).message(), HasSubstr("expected one of 2"));
  EXPECT_THAT(error_of({{1, 1}, {1, 1}}, tokens_from(0, 2)).message(), HasSubstr("each once"));
  EXPECT_EQ(error_of({{0, 13}}, tokens_from(0, 13)).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(error_of({{0, 0}}, tokens_from(0, 0)).code(), StatusCode::kOutOfRange);
  EXPECT_THAT(error_of({{0, 2}}, tokens_from(0, 3)).message(), HasSubstr("tokens: expected"));
  EXPECT_EQ(error_of({{0, 1}}, at::full({1}, 24, at::kLong)).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(cache.length(0), 0) << "nothing was written";
  auto large = KvCache::create(model.config(), model.options(), {}, 1, 13);
  ASSERT_TRUE(large.has_value());
  EXPECT_THAT(
      model
          .hidden_states(
              {.tokens = tokens_from(0, 1), .sequences = std::vector<CachedTokens>{{0, 1}}}, *large)
          .status()
          .message(),
      HasSubstr("max_position_embeddings 12"));
  EXPECT_THAT(model.logits_of(at::zeros({2, 3}), 1).status().message(), HasSubstr("hidden_rows"));
}

}  // namespace
}  // namespace meg::nn
