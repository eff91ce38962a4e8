#include "libmeg/model/gpt_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace meg::model {
namespace {

using Fields = std::map<std::string, megatron::FieldValue, std::less<>>;

Result<GptConfig> config_of(const Fields& fields) {
  return GptConfig::from_fields([&](std::string_view name) -> std::optional<megatron::FieldValue> {
    const auto found = fields.find(name);
    if (found == fields.end()) return std::nullopt;
    return found->second;
  });
}

/// The fields of a small model with some of them changed.
Fields with(Fields changes) {
  changes.merge(Fields{{"num_layers", int64_t{12}},
                       {"hidden_size", int64_t{768}},
                       {"num_attention_heads", int64_t{12}}});
  return changes;
}

std::string error_of(const Fields& fields) {
  const auto config = config_of(fields);
  if (config) return "";
  EXPECT_EQ(config.error().code(), StatusCode::kInvalidArgument);
  return config.error().message();
}

TEST(GptConfig, MissingFieldsGetMegatronsDefaults) {
  const auto config = config_of(with({{"ffn_hidden_size", std::monostate()}}));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->ffn_hidden_size, 3072);
  EXPECT_EQ(config->kv_channels, 64);
  EXPECT_EQ(config->num_query_groups, 12);
  EXPECT_EQ(config->make_vocab_size_divisible_by, 128);
  EXPECT_EQ(config->padded_vocab_size, 0);
  EXPECT_EQ(config->position_embedding_type, "learned_absolute");
  EXPECT_EQ(config->normalization, "LayerNorm");
  EXPECT_TRUE(config->add_bias_linear);
  EXPECT_FALSE(config->swiglu);
  EXPECT_FALSE(config->untie_embeddings_and_output_weights);
  EXPECT_EQ(config->num_experts, std::nullopt);
  EXPECT_EQ(config->qkv_rows(), 3 * 768);
  EXPECT_EQ(config->mlp_rows(), 3072);
}

TEST(GptConfig, SwigluShrinksTheDefaultMlpAndDoublesItsRows) {
  const auto config = config_of(with(
      {{"swiglu", true}, {"hidden_size", int64_t{4096}}, {"num_attention_heads", int64_t{32}}}));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->ffn_hidden_size, 10880);
  EXPECT_EQ(config->mlp_rows(), 2 * 10880);
}

TEST(GptConfig, EveryNameOfAGateDoublesTheMlpsRows) {
  for (const char* name : {"swiglu", "quick_geglu", "gated_linear_unit"}) {
    const auto config = config_of(with({{name, true}, {"ffn_hidden_size", int64_t{512}}}));
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_TRUE(config->gated_linear_unit) << name;
    EXPECT_EQ(config->mlp_rows(), 1024) << name;
    EXPECT_EQ(config->swiglu, std::string_view(name) == "swiglu");
  }
  EXPECT_TRUE(config_of(with({{"glu_activation", "geglu"}}))->gated_linear_unit);
  const auto plain =
      config_of(with({{"quick_geglu", false}, {"glu_activation", std::monostate()}}));
  EXPECT_FALSE(plain->gated_linear_unit);
}

TEST(GptConfig, QuickGegluKeepsTheDefaultMlp) {
  const auto config = config_of(with({{"quick_geglu", true}}));
  EXPECT_EQ(config->ffn_hidden_size, 3072);
  EXPECT_EQ(config->mlp_rows(), 6144);
}

TEST(GptConfig, QueryGroupsCountOnlyWithGroupQueryAttention) {
  EXPECT_EQ(config_of(with({{"num_query_groups", int64_t{1}}, {"group_query_attention", false}}))
                ->num_query_groups,
            12);
  EXPECT_EQ(config_of(with({{"num_query_groups", int64_t{4}}, {"group_query_attention", true}}))
                ->num_query_groups,
            4);
  EXPECT_EQ(config_of(with({{"num_query_groups", int64_t{4}}}))->num_query_groups, 4);
  EXPECT_EQ(config_of(with({{"group_query_attention", true}}))->num_query_groups, 1);
  EXPECT_EQ(config_of(with({{"num_query_groups", int64_t{4}}, {"kv_channels", int64_t{128}}}))
                ->qkv_rows(),
            (12 + 8) * 128);
}

TEST(GptConfig, EitherFlagMeansRotaryPositions) {
  EXPECT_EQ(config_of(with({{"position_embedding_type", "rope"}}))->position_embedding_type,
            "rope");
  EXPECT_EQ(config_of(with({{"use_rotary_position_embeddings", true}}))->position_embedding_type,
            "rope");
}

TEST(GptConfig, WrongFieldsAreNamedWithTheirValues) {
  EXPECT_EQ(error_of({}), "num_layers: expected an integer, found nothing");

  const struct {
    Fields changes;
    const char* message;
  } table[] = {
      {{{"hidden_size", std::monostate()}}, "hidden_size: expected an integer, found nothing"},
      {{{"num_layers", int64_t{0}}}, "num_layers: expected 1 to 1073741824, found 0"},
      {{{"num_layers", int64_t{-3}}}, "num_layers: expected 1 to 1073741824, found -3"},
      {{{"ffn_hidden_size", int64_t{1} << 62}},
       "ffn_hidden_size: expected 1 to 1073741824, found 4611686018427387904"},
      {{{"hidden_size", 768.5}}, "hidden_size: expected an integer, found 768.5"},
      {{{"num_layers", "12\n"}}, "num_layers: expected an integer, found \"12\\n\""},
      {{{"num_layers", true}}, "num_layers: expected an integer, found True"},
      {{{"swiglu", int64_t{1}}}, "swiglu: expected True or False, found 1"},
      {{{"normalization", false}}, "normalization: expected a string, found False"},
      {{{"num_attention_heads", int64_t{7}}},
       "hidden_size: expected a multiple of num_attention_heads 7, found 768"},
      {{{"num_query_groups", int64_t{5}}},
       "num_attention_heads: expected a multiple of num_query_groups 5, found 12"},
      {{{"swiglu", true}, {"hidden_size", int64_t{12}}},
       "ffn_hidden_size: expected a value with swiglu and hidden_size 12, found none"},
  };

  for (const auto& row : table) EXPECT_EQ(error_of(with(row.changes)), row.message);
}

TEST(GptConfig, TensorParallelSizesMustDivideWhatTheyCut) {
  const GptConfig config = *config_of(with({}));
  for (const int64_t size : {1, 2, 3, 4, 6, 12}) {
    EXPECT_TRUE(config.check_tensor_parallel_size(size).ok()) << size;
  }
  EXPECT_EQ(config.check_tensor_parallel_size(8).message(),
            "tensor-model-parallel-size: 8 does not divide num_attention_heads 12; sizes up to 64 "
            "that do: 1, 2, 3, 4, 6, 12");
  EXPECT_EQ(config.check_tensor_parallel_size(5).message(),
            "tensor-model-parallel-size: 5 does not divide num_attention_heads 12, hidden_size "
            "768, ffn_hidden_size 3072; sizes up to 64 that do: 1, 2, 3, 4, 6, 12");
  EXPECT_EQ(config.check_tensor_parallel_size(0).message(),
            "tensor-model-parallel-size: 0 does not divide anything; sizes up to 64 that do: 1, "
            "2, 3, 4, 6, 12");
  const GptConfig grouped = *config_of(with({{"num_query_groups", int64_t{2}}}));
  EXPECT_EQ(grouped.check_tensor_parallel_size(3).message(),
            "tensor-model-parallel-size: 3 does not divide num_query_groups 2; sizes up to 64 "
            "that do: 1, 2, 4");
  // More ranks than groups share the rows of one.
  EXPECT_EQ(grouped.check_tensor_parallel_size(6).message(),
            "tensor-model-parallel-size: 6 does not divide rows of queries, keys and values: 1024; "
            "sizes up to 64 that do: 1, 2, 4");
}

}  // namespace
}  // namespace meg::model
