#include "libmeg/model/parameter_count.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "libmeg/model/vocab_padding.h"

namespace meg::model {
namespace {

/// GPT as in the tutorials, the vocabulary of 50257 padded for a tensor-parallel size.
GptConfig gpt2_config(int64_t num_layers, int64_t hidden_size, int64_t heads, int64_t positions,
                      int64_t tensor_model_parallel_size) {
  GptConfig config;
  config.num_layers = num_layers;
  config.hidden_size = hidden_size;
  config.ffn_hidden_size = 4 * hidden_size;
  config.num_attention_heads = heads;
  config.num_query_groups = heads;
  config.kv_channels = hidden_size / heads;
  config.max_position_embeddings = positions;
  config.padded_vocab_size = *padded_vocab_size(50257, 128, tensor_model_parallel_size);
  return config;
}

int64_t count(const GptConfig& config, int64_t tensor, int64_t pipeline, int64_t stage = 0,
              int64_t chunks = 1) {
  const auto found = parameter_count(config, {tensor, pipeline, chunks}, stage);
  EXPECT_TRUE(found) << found.error().message();
  return found ? *found : -1;
}

TEST(ParameterCount, IsMegatronsForTheReferenceSizes) {
  EXPECT_EQ(count(gpt2_config(24, 1024, 16, 1024, 1), 1, 1), 354871296);
  EXPECT_EQ(count(gpt2_config(24, 1024, 16, 1024, 4), 4, 1), 89714688);
  EXPECT_EQ(count(gpt2_config(24, 1024, 16, 1024, 2), 2, 2, 0), 102483968);
  EXPECT_EQ(count(gpt2_config(24, 1024, 16, 1024, 2), 2, 2, 1), 101437440);
  EXPECT_EQ(count(gpt2_config(24, 1024, 16, 1024, 2), 2, 1), 178100224);
  EXPECT_EQ(count(gpt2_config(12, 768, 12, 512, 1), 1, 1), 124082688);
  GptConfig unpadded = gpt2_config(24, 1024, 16, 1024, 1);
  unpadded.padded_vocab_size = 50257;
  EXPECT_EQ(count(unpadded, 1, 1), 354823168);
}

TEST(ParameterCount, GivesThePublishedCountOfLlama2) {
  GptConfig config = gpt2_config(32, 4096, 32, 4096, 1);
  config.ffn_hidden_size = 11008;
  config.padded_vocab_size = 32000;
  config.swiglu = true;
  config.gated_linear_unit = true;
  config.add_bias_linear = false;
  config.untie_embeddings_and_output_weights = true;
  config.position_embedding_type = "rope";
  config.normalization = "RMSNorm";
  EXPECT_EQ(count(config, 1, 1), 6738415616);
  EXPECT_EQ(count(config, 1, 2, 0) + count(config, 1, 2, 1), 6738415616);
}

TEST(ParameterCount, SumsStagesAndChunksWithOneTiedCopy) {
  const GptConfig config = gpt2_config(24, 1024, 16, 1024, 1);
  for (const auto& [pipeline, chunks] : {std::pair{2, 1}, {4, 1}, {4, 2}, {4, 3}, {24, 1}}) {
    int64_t sum = 0;
    for (int64_t stage = 0; stage < pipeline; ++stage) {
      sum += count(config, 1, pipeline, stage, chunks);
    }
    EXPECT_EQ(sum, 354871296 + config.padded_vocab_size * config.hidden_size);
  }
}

TEST(ParameterCount, CountsTheLayersThatHaveExperts) {
  const ParameterTable table = std::move(*ParameterTable::gpt());
  GptConfig dense = gpt2_config(4, 64, 4, 32, 1);
  GptConfig config = dense;
  config.num_experts = 3;
  config.moe_ffn_hidden_size = 40;
  config.moe_shared_expert_intermediate_size = 24;
  const int64_t all_dense = count(dense, 1, 1), all_experts = count(config, 1, 1);
  config.moe_layers = {false, true, true, true};
  EXPECT_EQ(config.num_moe_layers(), 3);
  EXPECT_EQ(4 * count(config, 1, 1), all_dense + 3 * all_experts);
  for (const int64_t stage : {0, 1}) {
    int64_t sum = 0;
    const auto parameters =
        rank_parameters(config, {1, 2, 1}, stage, NameFamily::kMcoreLocal, table);
    ASSERT_TRUE(parameters) << parameters.error().message();
    for (const RankParameter& parameter : *parameters) {
      sum += std::accumulate(parameter.shape.begin(), parameter.shape.end(), int64_t{1},
                             std::multiplies<>());
      const bool is_expert = parameter.name.find(".experts.") != std::string::npos ||
                             parameter.name.find(".shared_experts.") != std::string::npos ||
                             parameter.name.find(".router.") != std::string::npos;
      const bool is_mlp = parameter.name.find(".mlp.") != std::string::npos;
      if (is_mlp) {
        EXPECT_EQ(is_expert, config.has_experts(*parameter.layer)) << parameter.name;
      }
    }
    EXPECT_EQ(sum, count(config, 1, 2, stage));
  }
  // Args may name no layer at all.
  config.moe_layers = {false, false, false, false};
  EXPECT_EQ(count(config, 1, 1), all_dense);
}

TEST(ParameterCount, IsTheSumOfTheRanksParameters) {
  const ParameterTable table = std::move(*ParameterTable::gpt());
  GptConfig config = gpt2_config(24, 1024, 16, 1024, 4);
  config.qk_layernorm = true;
  for (const ParallelSizes& sizes : {ParallelSizes{1, 1, 1}, {4, 1, 1}, {2, 3, 2}, {4, 4, 2}}) {
    for (int64_t stage = 0; stage < sizes.pipeline_model_parallel_size; ++stage) {
      const auto parameters = rank_parameters(config, sizes, stage, NameFamily::kMcoreLocal, table);
      ASSERT_TRUE(parameters) << parameters.error().message();
      int64_t sum = 0;
      for (const RankParameter& parameter : *parameters) {
        sum += std::accumulate(parameter.shape.begin(), parameter.shape.end(), int64_t{1},
                               std::multiplies<>());
      }
      EXPECT_EQ(sum, *parameter_count(config, sizes, stage));
    }
  }
}

TEST(ParameterCount, RefusesWhatItCannotCount) {
  const GptConfig good = gpt2_config(24, 1024, 16, 1024, 1);
  EXPECT_EQ(parameter_count(good, {3, 1, 1}).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(parameter_count(good, {1, 5, 1}).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(parameter_count(good, {1, 2, 1}, 2).error().message(),
            "pipeline rank: expected 0 to 1, found 2");
  GptConfig config = good;
  config.padded_vocab_size = 50257;
  EXPECT_EQ(parameter_count(config, {2, 1, 1}).error().message(),
            "shape [50257, 1024]: expected a dimension 0 that 2 ranks divide evenly");
  config.padded_vocab_size = 0;
  EXPECT_EQ(parameter_count(config).error().message(),
            "padded_vocab_size: expected the size of the padded vocabulary, found 0");
  config = good;
  config.num_attention_heads = config.num_query_groups = config.hidden_size =
      config.ffn_hidden_size = config.kv_channels = int64_t{1} << 30;
  EXPECT_EQ(parameter_count(config).error().code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace meg::model
