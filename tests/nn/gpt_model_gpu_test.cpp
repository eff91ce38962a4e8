// A GPU computes what the CPU computes. Skips visibly where there is none.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "libmeg/libtorch/cuda_backend.h"
#include "libmeg/nn/gpt_model.h"
#include "tests/kernels/gpu/require_gpu.h"
#include "tests/nn/small_model.h"

namespace meg::nn {
namespace {

using test::small_config;
using test::small_llama_config;
using test::small_model;
using test::small_tokens;

struct Step {
  at::Tensor losses;
  std::vector<at::Tensor> gradients;
};

/// A forward and a backward pass of a model with random weights, brought to the CPU.
Step step_on(at::Device device, const model::GptConfig& config, GptOptions options) {
  options.device = device;
  GptModel model = small_model(config, options);
  const at::Tensor tokens = small_tokens(config).to(device);
  const auto losses = model.loss({.tokens = tokens}, tokens.roll(-1, 1));
  EXPECT_TRUE(losses.has_value()) << losses.status().message();
  losses->mean().backward();
  Step step = {losses->detach().cpu(), {}};
  for (const GptParameter& parameter : model.parameters()) {
    step.gradients.push_back(parameter.tensor.grad().to(at::kFloat).cpu());
  }
  return step;
}

GptOptions without_dropout() {
  GptOptions options;
  options.hidden_dropout = options.attention_dropout = 0;
  return options;
}

/// Heads of 16, which the 16-bit attentions of GPUs want.
model::GptConfig with_wide_heads(model::GptConfig config) {
  config.hidden_size = 64;
  config.kv_channels = 16;
  config.ffn_hidden_size = 128;
  return config;
}

void expect_near(const Step& found, const Step& expected, double bound) {
  EXPECT_TRUE(at::allclose(found.losses, expected.losses, bound, bound));
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (size_t i = 0; i < found.gradients.size(); ++i) {
    const double size = expected.gradients[i].norm().item<double>();
    const double off = (found.gradients[i] - expected.gradients[i]).norm().item<double>();
    EXPECT_LE(off, bound * std::max(size, 1e-3)) << "parameter " << i;
  }
}

TEST(GptModelGpuTest, Fp32StepsAreTheCpus) {
  MEG_REQUIRE_GPU();
  for (const model::GptConfig& config : {small_config(), small_llama_config()}) {
    for (const AttentionBackend backend : {AttentionBackend::kAuto, AttentionBackend::kUnfused}) {
      GptOptions options = without_dropout();
      options.attention_backend = backend;
      expect_near(step_on(at::kCUDA, config, options), step_on(at::kCPU, config, options), 2e-4);
    }
  }
}

TEST(GptModelGpuTest, Bf16StepsOfEveryBackendAreNearTheCpus) {
  MEG_REQUIRE_GPU();
  for (const model::GptConfig& shape : {small_config(), small_llama_config()}) {
    const model::GptConfig config = with_wide_heads(shape);
    const Step expected = step_on(at::kCPU, config, without_dropout());
    for (const AttentionBackend backend : {AttentionBackend::kAuto, AttentionBackend::kFlash,
                                           AttentionBackend::kFused, AttentionBackend::kUnfused}) {
      GptOptions options = without_dropout();
      options.params_dtype = at::kBFloat16;
      options.attention_backend = backend;
      const Step found = step_on(at::kCUDA, config, options);
      EXPECT_TRUE(at::allclose(found.losses, expected.losses, 0.1, 0.1));
      EXPECT_LT(test::gradient_distance(found.gradients, expected.gradients),
                test::kBf16GradientDistance);
    }
  }
}

TEST(GptModelGpuTest, RecomputationDropsAlike) {
  MEG_REQUIRE_GPU();
  const model::GptConfig config = with_wide_heads(small_config());
  GptOptions options;
  options.hidden_dropout = options.attention_dropout = 0.2;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    options.params_dtype = type;
    options.recompute_granularity = model::RecomputeGranularity::kNone;
    const Step plain = step_on(at::kCUDA, config, options);
    for (const model::RecomputeGranularity granularity :
         {model::RecomputeGranularity::kSelective, model::RecomputeGranularity::kFull}) {
      options.recompute_granularity = granularity;
      const Step found = step_on(at::kCUDA, config, options);
      // fp32 sees a single other element of a mask. 16 bits are rounded elsewhere where a layer is
      // computed without gradients first; with other masks they would be off by their whole size.
      if (type == at::kFloat) {
        expect_near(found, plain, 1e-4);
      } else {
        EXPECT_LT(test::gradient_distance(found.gradients, plain.gradients),
                  test::kBf16GradientDistance);
      }
    }
  }
}

TEST(GptModelGpuTest, ALabelOutsideTheVocabularyIsSeenWithTheLosses) {
  MEG_REQUIRE_GPU();
  GptOptions options = without_dropout();
  options.device = at::kCUDA;
  GptModel model = small_model(small_config(), options);
  const at::Tensor tokens = small_tokens(small_config()).to(at::kCUDA);
  EXPECT_TRUE(model.loss({.tokens = tokens}, tokens)->isfinite().all().item<bool>());
  EXPECT_EQ(model.label_error().item<int>(), 0);
  const auto losses = model.loss({.tokens = tokens}, tokens + 10);
  EXPECT_EQ(model.label_error().item<int>(), 1);
  EXPECT_EQ(losses->isnan().sum().item<int64_t>(), tokens.ge(14).sum().item<int64_t>());
}

TEST(GptModelGpuTest, ACacheIsZeroInMemoryThatWasUsed) {
  MEG_REQUIRE_GPU();
  GptOptions options;
  options.device = at::kCUDA;
  ASSERT_TRUE(libtorch::load_cuda_backend().ok());
  const auto like = at::dtype(at::kFloat).device(at::kCUDA);
  for (int i = 0; i < 16; ++i) at::full({2, 4, 12, 4}, NAN, like);
  const KvCache cache = *KvCache::create(small_config(), options, {}, 2, 12);
  EXPECT_TRUE(cache.keys(0).eq(0).all().item<bool>());
  EXPECT_TRUE(cache.values(4).eq(0).all().item<bool>());
}

TEST(GptModelGpuTest, DeterministicStepsRepeatToTheBit) {
  MEG_REQUIRE_GPU();
  libtorch::use_deterministic_algorithms();
  for (const model::GptConfig& shape : {small_config(), small_llama_config()}) {
    for (const AttentionBackend backend :
         {AttentionBackend::kAuto, AttentionBackend::kFlash, AttentionBackend::kUnfused}) {
      GptOptions options;
      options.params_dtype = at::kBFloat16;
      options.attention_backend = backend;
      const Step once = step_on(at::kCUDA, with_wide_heads(shape), options);
      const Step again = step_on(at::kCUDA, with_wide_heads(shape), options);
      EXPECT_TRUE(at::equal(once.losses, again.losses));
      EXPECT_EQ(test::gradient_distance(once.gradients, again.gradients), 0);
    }
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
}

GptModel model_for_inference(const model::GptConfig& shape) {
  GptOptions options = without_dropout();
  options.device = at::kCUDA;
  GptModel model = small_model(with_wide_heads(shape), options);
  model.set_training(false);
  return model;
}

TEST(GptModelGpuTest, CachedStepsAreWholePasses) {
  MEG_REQUIRE_GPU();
  for (const model::GptConfig& shape : {small_config(), small_llama_config()}) {
    GptModel model = model_for_inference(shape);
    const at::Tensor tokens = small_tokens(shape)[0].to(at::kCUDA);
    const at::Tensor whole = *model.hidden_states({.tokens = tokens.unsqueeze(0)});
    KvCache cache = *KvCache::create(model.config(), model.options(), {}, 2, 12);
    const auto states = [&](int64_t first, int64_t count) {
      const std::vector<CachedTokens> sequences = {{1, count}};
      return *model.hidden_states(
          {.tokens = tokens.narrow(0, first, count), .sequences = sequences}, cache);
    };
    const at::Tensor found = at::cat({states(0, 5), states(5, 1), states(6, 4), states(10, 1)}, 1);
    EXPECT_TRUE(at::allclose(found, whole.narrow(1, 0, 11), 1e-4, 1e-4));
  }
}

TEST(GptModelGpuTest, RecordedStepsAreWholePasses) {
  MEG_REQUIRE_GPU();
  for (const model::GptConfig& shape : {small_config(), small_llama_config()}) {
    GptModel model = model_for_inference(shape);
    const at::Tensor tokens = small_tokens(shape).narrow(0, 0, 2).to(at::kCUDA);
    const at::Tensor whole = *model.hidden_states({.tokens = tokens});
    KvCache cache = *KvCache::create(model.config(), model.options(), {}, 3, 12);
    const auto extend = [&](const at::Tensor& new_tokens, std::vector<CachedTokens> sequences) {
      const auto states =
          model.hidden_states({.tokens = new_tokens, .sequences = sequences}, cache);
      EXPECT_TRUE(states.has_value()) << states.status().message();
      return states.has_value() ? *states : at::zeros_like(whole);
    };
    extend(at::cat({tokens[0].narrow(0, 0, 2), tokens[1].narrow(0, 0, 4)}), {{2, 2}, {0, 4}});
    // The first step is run as it is, the second recorded; then both are launched, also after
    // steps of another number of tokens and of other slots.
    for (int64_t i = 0; i < 6; ++i) {
      const at::Tensor pair = at::stack({tokens[0][2 + i], tokens[1][4 + i]});
      const at::Tensor found = extend(pair, {{2, 1}, {0, 1}});
      EXPECT_TRUE(at::allclose(found[0][0], whole[0][2 + i], 1e-4, 1e-4)) << i;
      EXPECT_TRUE(at::allclose(found[0][1], whole[1][4 + i], 1e-4, 1e-4)) << i;
      const at::Tensor other = extend(tokens[1].narrow(0, i, 1), {{1, 1}});
      EXPECT_TRUE(at::allclose(other[0][0], whole[1][i], 1e-4, 1e-4)) << i;
    }
  }
}

}  // namespace
}  // namespace meg::nn
