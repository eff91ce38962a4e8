#include "libmeg/nn/gpt_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace meg::nn {
namespace {

using ::testing::StartsWith;

Result<GptOptions> from(const std::map<std::string, megatron::FieldValue, std::less<>>& fields) {
  return GptOptions::from_fields([&](std::string_view name) -> std::optional<megatron::FieldValue> {
    const auto found = fields.find(name);
    if (found == fields.end()) return std::nullopt;
    return found->second;
  });
}

TEST(GptOptionsTest, NoFieldsGiveMegatronsDefaults) {
  const auto options = from({});
  ASSERT_TRUE(options.has_value()) << options.error().message();
  EXPECT_EQ(options->params_dtype, at::kFloat);
  EXPECT_EQ(options->hidden_dropout, 0.1);
  EXPECT_EQ(options->gelu, GeluForm::kTanh);
  EXPECT_EQ(options->attention_backend, AttentionBackend::kAuto);
  EXPECT_EQ(options->recompute_granularity, model::RecomputeGranularity::kNone);
}

TEST(GptOptionsTest, FieldsOfBothFamiliesAreRead) {
  const auto options = from({{"bf16", true},
                             {"norm_epsilon", 1e-6},
                             {"hidden_dropout", int64_t{0}},
                             {"rotary_base", int64_t{500000}},
                             {"attention_backend", std::string("fused")},
                             {"recompute_granularity", std::string("full")},
                             {"recompute_method", std::string("block")},
                             {"recompute_num_layers", int64_t{3}}});
  ASSERT_TRUE(options.has_value()) << options.error().message();
  EXPECT_EQ(options->params_dtype, at::kBFloat16);
  EXPECT_EQ(options->layernorm_epsilon, 1e-6);
  EXPECT_EQ(options->hidden_dropout, 0);
  EXPECT_EQ(options->rotary_base, 500000);
  EXPECT_EQ(options->attention_backend, AttentionBackend::kFused);
  EXPECT_EQ(options->recompute_granularity, model::RecomputeGranularity::kFull);
  EXPECT_EQ(options->recompute_method, RecomputeMethod::kBlock);
  EXPECT_EQ(options->recompute_num_layers, 3);
}

TEST(GptOptionsTest, GeluIsTanhOnlyWhereTheFusionRuns) {
  EXPECT_EQ(from({{"bias_gelu_fusion", false}})->gelu, GeluForm::kErf);
  EXPECT_EQ(from({{"add_bias_linear", false}})->gelu, GeluForm::kErf);
  EXPECT_EQ(from({{"bias_gelu_fusion", false}, {"openai_gelu", true}})->gelu, GeluForm::kTanh);
}

TEST(GptOptionsTest, OptionsOfLaterModelsAreRead) {
  const auto options = from({{"squared_relu", true},
                             {"apply_layernorm_1p", true},
                             {"fp32_residual_connection", true},
                             {"bf16", true},
                             {"use_rope_scaling", true},
                             {"rope_scaling_factor", 32.0},
                             {"rotary_seq_len_interpolation_factor", int64_t{4}},
                             {"rotary_base", 5e5},
                             {"init_method_xavier_uniform", true}});
  ASSERT_TRUE(options.has_value()) << options.error().message();
  EXPECT_TRUE(options->squared_relu);
  EXPECT_TRUE(options->apply_layernorm_1p);
  EXPECT_EQ(options->residual_dtype(), at::kFloat);
  EXPECT_TRUE(options->use_rope_scaling);
  EXPECT_EQ(options->rope_scaling_factor, 32);
  EXPECT_EQ(options->rotary_seq_len_interpolation_factor, 4);
  EXPECT_EQ(options->rotary_base, 5e5);
  EXPECT_TRUE(options->init_method_xavier_uniform);
  EXPECT_TRUE(from({{"quick_geglu", true}})->quick_geglu);
  EXPECT_TRUE(from({{"layernorm_zero_centered_gamma", true}})->apply_layernorm_1p)
      << "as core_v0.16 saves it";
  EXPECT_EQ(from({{"bf16", true}})->residual_dtype(), at::kBFloat16);
  EXPECT_EQ(from({})->rope_scaling_factor, 8);
}

TEST(GptOptionsTest, NamesWhatDoesNotGoTogether) {
  model::GptConfig config;
  config.swiglu = true;
  GptOptions options;
  options.squared_relu = true;
  EXPECT_EQ(options.check(config).message(), "squared_relu: cannot be combined with swiglu");
  EXPECT_EQ(from({{"squared_relu", true}, {"openai_gelu", true}}).status().message(),
            "squared_relu: cannot be combined with openai_gelu");
  options = {};
  options.quick_geglu = true;
  EXPECT_EQ(options.check(config).message(), "quick_geglu: cannot be combined with swiglu");
  config.swiglu = false;
  EXPECT_EQ(options.check(config).message(),
            "quick_geglu: expected gated_linear_unit, found a model without a gate");
  options = {};
  options.rope_scaling_factor = 0;
  EXPECT_EQ(options.check({}).message(), "rope_scaling_factor: expected a number above 0, found 0");
  options = {};
  options.rotary_seq_len_interpolation_factor = -2;
  EXPECT_EQ(options.check({}).message(),
            "rotary_seq_len_interpolation_factor: expected a number above 0, found -2");
  options = {};
  options.params_dtype = at::kBFloat16;
  options.device = at::kCUDA;
  options.attention_backend = AttentionBackend::kFused;
  EXPECT_EQ(options.check({}).message(),
            "attention_dropout: expected a multiple of 1/16 with attention_backend fused on a GPU, "
            "whose cuDNN rounds it to one, found 0.1");
  options.attention_dropout = 0.125;
  EXPECT_TRUE(options.check({}).ok()) << options.check({}).message();
}

TEST(GptOptionsTest, NamesWhatItCannotDo) {
  const auto message = [](const std::map<std::string, megatron::FieldValue, std::less<>>& fields) {
    const auto options = from(fields);
    return options.has_value() ? std::string() : options.error().message();
  };
  EXPECT_EQ(message({{"fp16", true}, {"bf16", true}}),
            "fp16, bf16: expected one of them at most, found both");
  EXPECT_EQ(message({{"attention_backend", std::string("triton")}}),
            "attention_backend: expected auto, flash, fused, unfused or local, found triton");
  EXPECT_EQ(message({{"hidden_dropout", std::string("no")}}),
            "hidden_dropout: expected a number, found \"no\"");
  using Field = std::pair<const std::string, megatron::FieldValue>;
  const Field full = {"recompute_granularity", std::string("full")};
  const Field selective = {"recompute_activations", true};
  const Field uniform = {"recompute_method", std::string("uniform")};
  const Field two_layers = {"recompute_num_layers", int64_t{2}};
  const std::string only_full = ": only with recompute_granularity full";
  EXPECT_EQ(message({full, two_layers}),
            "recompute_method: expected uniform or block with recompute_granularity full, found "
            "none");
  EXPECT_THAT(message({full, selective, uniform}), StartsWith("recompute_method" + only_full));
  EXPECT_THAT(message({selective, two_layers}), StartsWith("recompute_num_layers" + only_full));
  EXPECT_EQ(message({{"distribute_saved_activations", true}}),
            "distribute_saved_activations" + only_full);
  EXPECT_EQ(message({{"recompute_granularity", std::string("some")}}),
            "recompute_granularity: expected selective or full, found \"some\"");
}

TEST(GptOptionsTest, SoftmaxOffsetsAreForCpusAndNormalWeights) {
  model::GptConfig config;
  for (const char* type : {"off-by-one", "learnable"}) {
    config.softmax_type = type;
    GptOptions options;
    EXPECT_TRUE(options.check(config).ok());
    options.device = at::kCUDA;
    EXPECT_EQ(options.check(config).message(),
              std::string("softmax_type: expected vanilla on a GPU, found ") + type +
                  ", which is computed on a CPU only");
  }
  GptOptions options;
  options.init_method_xavier_uniform = true;
  EXPECT_EQ(options.check(config).message(),
            "init_method_xavier_uniform: cannot be combined with softmax_type learnable");
}

TEST(GptOptionsTest, AnOddNumberOfRotaryChannelsNeedsRoomForOneMore) {
  model::GptConfig config;
  config.position_embedding_type = "rope";
  config.normalization = "RMSNorm";
  config.kv_channels = 5;
  GptOptions options;
  EXPECT_EQ(options.check(config).message(),
            "rotary channels: expected an even number of kv_channels, found 5");
  options.rotary_percent = 0.6;
  EXPECT_TRUE(options.check(config).ok());
  config.kv_channels = 6;
  options.rotary_percent = 0.9;
  EXPECT_TRUE(options.check(config).ok());
}

}  // namespace
}  // namespace meg::nn
