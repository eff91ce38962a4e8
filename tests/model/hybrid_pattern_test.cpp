#include "libmeg/model/hybrid_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libmeg/megatron/argument_table.h"
#include "libmeg/model/parameter_table.h"

namespace meg::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HybridPattern, PairsOfLayersAreThoseOfGpt) {
  const Result<HybridPattern> plain = parse_hybrid_pattern("*-*-*-");
  ASSERT_TRUE(plain.has_value());
  EXPECT_THAT(plain->segments, ElementsAre(3));
  EXPECT_FALSE(plain->has_experts());
  const Result<HybridPattern> cut = parse_hybrid_pattern("*E|*E*E");
  ASSERT_TRUE(cut.has_value());
  EXPECT_THAT(cut->segments, ElementsAre(1, 2));
  EXPECT_EQ(cut->num_layers(), 3);
  EXPECT_TRUE(cut->has_experts());
  EXPECT_EQ(cut->moe_layer_freq(), megatron::FieldValue(int64_t{1}));
  const Result<HybridPattern> mixed = parse_hybrid_pattern("*-|*E*E");
  ASSERT_TRUE(mixed.has_value());
  EXPECT_THAT(mixed->moe_layers, ElementsAre(false, true, true));
  EXPECT_EQ(mixed->moe_layer_freq(), megatron::FieldValue(std::vector<std::string>{"0", "1", "1"}));
}

TEST(HybridPattern, TextIsWhatWasParsed) {
  for (const char* text : {"*-", "*E*E", "*-|*-*-|*-*-|*-", "*-*E|*E*-"}) {
    EXPECT_EQ(hybrid_pattern_text(*parse_hybrid_pattern(text)), text);
  }
}

TEST(HybridPattern, RefusesLayersThatGptHasNot) {
  for (const char* text : {"", "|", "M*-M*-", "**--", "*|-", "*-*", "-*-*", "*-*-/**", "*G"}) {
    const Result<HybridPattern> pattern = parse_hybrid_pattern(text);
    ASSERT_FALSE(pattern.has_value()) << text;
    EXPECT_EQ(pattern.error().code(), StatusCode::kUnsupported);
    EXPECT_THAT(pattern.error().message(), HasSubstr(text));
  }
}

megatron::ArgumentValues args_with(
    std::initializer_list<std::pair<std::string_view, megatron::FieldValue>> given) {
  using megatron::ArgumentFamily;
  megatron::ArgumentValues args =
      megatron::ArgumentValues::defaults(megatron::argument_rows(ArgumentFamily::kTraining));
  for (const auto& [dest, value] : given) {
    args.give(*megatron::find_argument(ArgumentFamily::kTraining, dest), value);
  }
  return args;
}

TEST(HybridArgs, BecomeThoseOfGpt) {
  for (const char* field : {"hybrid_layer_pattern", "hybrid_override_pattern"}) {
    megatron::ArgumentValues args = args_with({{field, std::string("*-*-*-")}});
    const auto pattern = take_hybrid_pattern(args);
    ASSERT_TRUE(pattern.has_value()) << pattern.error().message();
    ASSERT_TRUE(pattern->has_value());
    EXPECT_EQ((*pattern)->num_layers(), 3);
    EXPECT_EQ(args.field("num_layers"), megatron::FieldValue(int64_t{3}));
    EXPECT_TRUE(args.given("num_layers"));
    EXPECT_FALSE(args.has_any({"hybrid_layer_pattern", "hybrid_override_pattern"}));
  }
}

TEST(HybridArgs, StayAsTheyAreInAGptModel) {
  megatron::ArgumentValues args = args_with({{"num_layers", int64_t{5}}});
  const auto pattern = take_hybrid_pattern(args);
  ASSERT_TRUE(pattern.has_value());
  EXPECT_FALSE(pattern->has_value());
  EXPECT_EQ(args.field("num_layers"), megatron::FieldValue(int64_t{5}));
}

TEST(HybridArgs, SegmentsBecomeALayout) {
  megatron::ArgumentValues args = args_with({{"pipeline_model_parallel_size", int64_t{2}}});
  ASSERT_TRUE(take_hybrid_segments({.segments = {1, 0, 2, 1}}, args).ok());
  EXPECT_EQ(args.field("pipeline_model_parallel_layout"),
            megatron::FieldValue(std::string("Et||tt|tL")));
  const Status three = take_hybrid_segments({.segments = {1, 1, 1}}, args);
  EXPECT_EQ(three.code(), StatusCode::kInvalidArgument);
}

TEST(HybridNames, AttentionAndMlpAreLayersOfTheirOwn) {
  const ParameterTable table = std::move(ParameterTable::gpt()).value();

  const struct {
    const char* name;
    const char* canonical;
    int64_t layer;
  } names[] = {
      {"decoder.layers.6.self_attention.linear_qkv.layer_norm_weight",
       "decoder.layers.{}.input_layernorm.weight", 3},
      {"decoder.layers.6.self_attention.q_layernorm.weight",
       "decoder.layers.{}.self_attention.q_layernorm.weight", 3},
      {"decoder.layers.7.mlp.linear_fc1.bias", "decoder.layers.{}.mlp.linear_fc1.bias", 3},
      {"decoder.layers.7.mlp.router.weight", "decoder.layers.{}.mlp.router.weight", 3},
      {"decoder.layers.0.self_attention.linear_proj.bias",
       "decoder.layers.{}.self_attention.linear_proj.bias", 0},
  };

  for (const auto& expected : names) {
    const auto match = table.match(expected.name, true);
    ASSERT_TRUE(match.has_value()) << expected.name;
    EXPECT_EQ(match->canonical, expected.canonical);
    EXPECT_EQ(match->layer, expected.layer);
    EXPECT_EQ(with_layer(*table.spell(match->canonical, NameFamily::kHybrid), *match->layer,
                         NameFamily::kHybrid),
              expected.name);
  }
  const auto norm = table.match("decoder.final_norm.weight", true);
  ASSERT_TRUE(norm.has_value());
  EXPECT_EQ(norm->canonical, "decoder.final_layernorm.weight");
  EXPECT_THAT(norm->families, ElementsAre(NameFamily::kHybrid));
  const auto expert = table.match("decoder.layers.3.mlp.experts.linear_fc2.weight5", true);
  ASSERT_TRUE(expert.has_value());
  EXPECT_EQ(expert->layer, 1);
  EXPECT_EQ(expert->expert, 5);
}

TEST(HybridNames, OtherHalvesOfLayersAreNotKnown) {
  const ParameterTable table = std::move(ParameterTable::gpt()).value();
  EXPECT_FALSE(table.match("decoder.layers.1.self_attention.linear_proj.weight", true));
  EXPECT_FALSE(table.match("decoder.layers.2.mlp.linear_fc1.weight", true));
  EXPECT_FALSE(table.match("decoder.layers.2.pre_mlp_layernorm.weight", true));
  EXPECT_FALSE(table.match("decoder.layers.0.mixer.in_proj.weight", true));
}

}  // namespace
}  // namespace meg::model
