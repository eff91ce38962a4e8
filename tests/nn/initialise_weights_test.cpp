#include "libmeg/nn/initialise_weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "tests/nn/small_model.h"

namespace meg::nn {
namespace {

GptModel model_with(at::ScalarType dtype, uint64_t seed, const ModelPart& part = {},
                    GptOptions options = {}) {
  model::GptConfig config = test::small_config();
  config.num_layers = 8;
  config.hidden_size = 64;
  config.kv_channels = 16;
  config.ffn_hidden_size = 256;
  config.padded_vocab_size = 512;
  options.params_dtype = dtype;
  auto model = GptModel::create(config, options, part);
  EXPECT_TRUE(model.has_value());
  EXPECT_TRUE(initialise_weights(*model, seed).ok());
  return std::move(*model);
}

TEST(InitialiseWeightsTest, DeviationsAreMegatrons) {
  const GptModel model = model_with(at::kFloat, 1);
  for (const GptParameter& parameter : model.parameters()) {
    const at::Tensor tensor = parameter.tensor.detach();
    const bool is_output = parameter.name.ends_with("linear_proj.weight") ||
                           parameter.name.ends_with("linear_fc2.weight");
    if (tensor.dim() == 2) {
      const double expected = is_output ? 0.02 / std::sqrt(2.0 * 8) : 0.02;
      EXPECT_NEAR(tensor.std().item<double>() / expected, 1, 0.08) << parameter.name;
    } else {
      const double expected = parameter.name.ends_with("layernorm.weight") ? 1 : 0;
      EXPECT_TRUE(at::equal(tensor, at::full_like(tensor, expected))) << parameter.name;
    }
  }
}

TEST(InitialiseWeightsTest, XaviersMatricesAreUniform) {
  GptOptions options;
  options.init_method_xavier_uniform = true;
  const GptModel model = model_with(at::kFloat, 1, {}, options);
  for (const GptParameter& parameter : model.parameters()) {
    const at::Tensor tensor = parameter.tensor.detach();
    if (tensor.dim() != 2) continue;
    const double bound = std::sqrt(6.0 / static_cast<double>(tensor.size(0) + tensor.size(1)));
    EXPECT_NEAR(tensor.max().item<double>() / bound, 1, 0.02) << parameter.name;
    EXPECT_NEAR(tensor.min().item<double>() / bound, -1, 0.02) << parameter.name;
    EXPECT_NEAR(tensor.std().item<double>() / bound * std::sqrt(3.0), 1, 0.05) << parameter.name;
  }
}

TEST(InitialiseWeightsTest, NormsStoredLessOneBeginAtZero) {
  GptOptions options;
  options.apply_layernorm_1p = true;
  const GptModel model = model_with(at::kFloat, 1, {}, options);
  for (const GptParameter& parameter : model.parameters()) {
    if (parameter.tensor.dim() != 1) continue;
    EXPECT_EQ(parameter.tensor.abs().max().item<double>(), 0) << parameter.name;
  }
}

TEST(InitialiseWeightsTest, SeedsDecideAndTypesRound) {
  const GptModel model = model_with(at::kFloat, 1);
  const GptModel again = model_with(at::kFloat, 1);
  const GptModel other = model_with(at::kFloat, 2);
  const GptModel rounded = model_with(at::kBFloat16, 1);
  const at::Tensor weights = model.parameters()[0].tensor;
  EXPECT_TRUE(at::equal(weights, again.parameters()[0].tensor));
  EXPECT_FALSE(at::equal(weights, other.parameters()[0].tensor));
  EXPECT_TRUE(at::equal(weights.to(at::kBFloat16), rounded.parameters()[0].tensor));
}

TEST(InitialiseWeightsTest, StagesHaveTheWholeModelsNumbers) {
  const GptModel whole = model_with(at::kFloat, 1);
  std::map<std::string, at::Tensor> expected;
  for (const GptParameter& parameter : whole.parameters()) {
    expected[parameter.name] = parameter.tensor;
  }
  expected[std::string(model::kTiedCopyName)] = expected["embedding.word_embeddings.weight"];
  ModelPart part;
  part.sizes.pipeline_model_parallel_size = 2;
  for (part.pipeline_rank = 0; part.pipeline_rank < 2; ++part.pipeline_rank) {
    const GptModel stage = model_with(at::kFloat, 1, part);
    for (const GptParameter& parameter : stage.parameters()) {
      EXPECT_TRUE(at::equal(parameter.tensor, expected[parameter.name])) << parameter.name;
    }
  }
}

}  // namespace
}  // namespace meg::nn
