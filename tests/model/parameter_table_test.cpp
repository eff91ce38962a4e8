#include "libmeg/model/parameter_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libmeg/model/internal/parameter_rows.h"

namespace meg::model {
namespace {

constexpr NameFamily kFamilies[] = {NameFamily::kLegacy,
                                    NameFamily::kOld,
                                    NameFamily::kFlat,
                                    NameFamily::kMcoreLocal,
                                    NameFamily::kMcoreTransformerEngine,
                                    NameFamily::kHybrid};

class ParameterTableTest : public testing::Test {
 protected:
  std::string rules_error(std::string_view text) {
    const Status status = table_.add_rules(text, "rules.txt");
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  }

  ParameterTable table_ = std::move(ParameterTable::gpt()).value();
};

TEST_F(ParameterTableTest, FamiliesMeetInTheCanonicalName) {
  const struct {
    const char* name;
    const char* canonical;
    Partition partition;
    Placement placement;
    std::vector<NameFamily> families;
  } table[] = {
      {"language_model.encoder.layers.3.self_attention.query_key_value.bias",
       "decoder.layers.{}.self_attention.linear_qkv.bias",
       Partition::kQkv,
       Placement::kLayer,
       {NameFamily::kLegacy}},
      {"language_model.transformer.layers.3.attention.dense.weight",
       "decoder.layers.{}.self_attention.linear_proj.weight",
       Partition::kColumns,
       Placement::kLayer,
       {NameFamily::kOld}},
      {"transformer.layers.3.mlp.dense_4h_to_h.bias",
       "decoder.layers.{}.mlp.linear_fc2.bias",
       Partition::kReplicated,
       Placement::kLayer,
       {NameFamily::kFlat}},
      {"decoder.layers.3.mlp.linear_fc1.weight",
       "decoder.layers.{}.mlp.linear_fc1.weight",
       Partition::kGated,
       Placement::kLayer,
       {NameFamily::kMcoreLocal, NameFamily::kMcoreTransformerEngine, NameFamily::kHybrid}},
      {"decoder.layers.3.mlp.linear_fc1.layer_norm_bias",
       "decoder.layers.{}.pre_mlp_layernorm.bias",
       Partition::kReplicated,
       Placement::kLayer,
       {NameFamily::kMcoreTransformerEngine, NameFamily::kHybrid}},
      {"decoder.layers.3.pre_mlp_layernorm.bias",
       "decoder.layers.{}.pre_mlp_layernorm.bias",
       Partition::kReplicated,
       Placement::kLayer,
       {NameFamily::kMcoreLocal, NameFamily::kMcoreTransformerEngine, NameFamily::kHybrid}},
      {"language_model.encoder.layers.3.post_attention_norm.weight",
       "decoder.layers.{}.pre_mlp_layernorm.weight",
       Partition::kReplicated,
       Placement::kLayer,
       {NameFamily::kLegacy}},
      {"decoder.layers.3.self_attention.q_layernorm.weight",
       "decoder.layers.{}.self_attention.q_layernorm.weight",
       Partition::kReplicated,
       Placement::kLayer,
       {NameFamily::kMcoreLocal, NameFamily::kMcoreTransformerEngine, NameFamily::kHybrid}},
      {"language_model.embedding.word_embeddings.weight",
       "embedding.word_embeddings.weight",
       Partition::kVocabulary,
       Placement::kEmbedding,
       {NameFamily::kLegacy, NameFamily::kOld}},
      {"position_embeddings.weight",
       "embedding.position_embeddings.weight",
       Partition::kReplicated,
       Placement::kEmbedding,
       {NameFamily::kFlat}},
      {"language_model.encoder.final_norm.weight",
       "decoder.final_layernorm.weight",
       Partition::kReplicated,
       Placement::kFinal,
       {NameFamily::kLegacy}},
      {"language_model.output_layer.weight",
       "output_layer.weight",
       Partition::kVocabulary,
       Placement::kOutput,
       {NameFamily::kLegacy}},
      {"output_layer.weight",
       "output_layer.weight",
       Partition::kVocabulary,
       Placement::kOutput,
       {NameFamily::kMcoreLocal, NameFamily::kMcoreTransformerEngine, NameFamily::kHybrid}},
      {"word_embeddings_for_head.weight",
       "word_embeddings_for_head.weight",
       Partition::kVocabulary,
       Placement::kOutput,
       {NameFamily::kLegacy, NameFamily::kOld}},
  };

  for (const auto& row : table) {
    SCOPED_TRACE(row.name);
    const auto match = table_.match(row.name);
    ASSERT_TRUE(match);
    EXPECT_EQ(match->canonical, row.canonical);
    EXPECT_EQ(match->partition, row.partition);
    EXPECT_EQ(match->placement, row.placement);
    EXPECT_EQ(match->families, row.families);
    EXPECT_EQ(match->layer.has_value(), row.placement == Placement::kLayer);
    EXPECT_EQ(match->layer.value_or(3), 3);
    EXPECT_FALSE(match->is_extra_state);
    EXPECT_FALSE(match->is_expert);
  }
}

TEST_F(ParameterTableTest, UnknownNamesAreUnknown) {
  for (const char* name :
       {"", ".", "weight", "decoder.layers.0.mlp.linear_fc1", "decoder.layers..mlp.linear_fc1.bias",
        "decoder.layers.-1.mlp.linear_fc1.bias", "decoder.layers.01.mlp.linear_fc1.bias",
        "decoder.layers.0x1.mlp.linear_fc1.bias", "decoder.layers.0.mlp.linear_fc1.weights",
        "xdecoder.layers.0.mlp.linear_fc1.bias", "decoder_layers.0.mlp.linear_fc1.bias",
        "decoder.layers.99999999999999999999.mlp.linear_fc1.bias", "output_layer.bias",
        "decoder.layers.{}.mlp.linear_fc1.bias", "decoder.layers.0.mlp.linear_fc1.bias\n",
        "language_model.encoder.layers.0.self_attention.query.weight", "extra_state",
        "my_extra_state", "language_model.pooler.dense.weight"}) {
    EXPECT_FALSE(table_.match(name)) << name;
  }
  EXPECT_FALSE(table_.match(std::string(1 << 20, 'a')));
  EXPECT_FALSE(table_.match(std::string("output_layer.weight\0", 20)));
  EXPECT_FALSE(table_.match("\xff\xfe"));
}

TEST_F(ParameterTableTest, ExpertsOfKnownLayersAreParametersLikeOthers) {
  for (const char* name : {"decoder.layers.0.mlp.experts.local_experts.1.linear_fc1.weight",
                           "decoder.layers.0.mlp.experts.linear_fc2.weight7",
                           "decoder.layers.0.mlp.shared_experts.linear_fc1.weight"}) {
    const auto match = table_.match(name);
    ASSERT_TRUE(match) << name;
    EXPECT_FALSE(match->is_expert) << name;
    EXPECT_EQ(match->layer, 0) << name;
  }
}

TEST_F(ParameterTableTest, OtherExpertsAreRecognisedAsSuch) {
  for (const char* name :
       {"decoder.layers.0.mlp.experts.weight1", "decoder.layers.0.mlp.router.tokens",
        "language_model.encoder.layers.0.mlp.local_experts.0.dense_h_to_4h.weight"}) {
    const auto match = table_.match(name);
    ASSERT_TRUE(match) << name;
    EXPECT_TRUE(match->is_expert) << name;
    EXPECT_FALSE(match->is_extra_state) << name;
    EXPECT_EQ(match->layer, 0) << name;
  }
  const auto router = table_.match("decoder.layers.5.mlp.router.weight");
  ASSERT_TRUE(router);
  EXPECT_FALSE(router->is_expert);
  EXPECT_EQ(router->partition, Partition::kReplicated);
  EXPECT_TRUE(router->has_optimizer_state());
  const auto bias = table_.match("decoder.layers.5.mlp.router.expert_bias");
  ASSERT_TRUE(bias);
  EXPECT_TRUE(bias->is_buffer);
  EXPECT_FALSE(bias->has_optimizer_state());
  EXPECT_EQ(bias->canonical, "decoder.layers.{}.mlp.router.expert_bias");
  const auto state =
      table_.match("decoder.layers.0.mlp.experts.local_experts.1.linear_fc1._extra_state");
  EXPECT_TRUE(state->is_extra_state);
}

TEST_F(ParameterTableTest, DistinguishesExtraStateFromParameters) {
  const struct {
    const char* name;
    const char* canonical;
    Placement placement;
  } table[] = {
      {"decoder.layers.2.self_attention.linear_qkv._extra_state",
       "decoder.layers.{}.self_attention.linear_qkv._extra_state", Placement::kLayer},
      {"language_model.encoder.layers.2.self_attention.query_key_value._extra_state",
       "decoder.layers.{}.self_attention.linear_qkv._extra_state", Placement::kLayer},
      {"language_model.output_layer._extra_state", "output_layer._extra_state", Placement::kOutput},
      {"decoder.layers.2.self_attention.core_attention._extra_state",
       "decoder.layers.{}.self_attention.core_attention._extra_state", Placement::kLayer},
      {"decoder.layers.2.input_layernorm._extra_state",
       "decoder.layers.{}.input_layernorm._extra_state", Placement::kLayer},
      {"decoder.final_layernorm._extra_state", "decoder.final_layernorm._extra_state",
       Placement::kFinal},
      {"rotary_pos_emb.inv_freq", "rotary_pos_emb.inv_freq", Placement::kEmbedding},
      {"language_model.rotary_pos_emb.inv_freq", "language_model.rotary_pos_emb.inv_freq",
       Placement::kEmbedding},
  };

  for (const auto& row : table) {
    SCOPED_TRACE(row.name);
    const auto match = table_.match(row.name);
    ASSERT_TRUE(match);
    EXPECT_TRUE(match->is_extra_state);
    EXPECT_FALSE(match->is_expert);
    EXPECT_EQ(match->canonical, row.canonical);
    EXPECT_EQ(match->placement, row.placement);
    EXPECT_FALSE(match->families.empty());
  }
}

TEST_F(ParameterTableTest, EverySpellingLeadsBackToItsCanonicalName) {
  for (const ModuleRow& row : gpt_module_rows()) {
    for (const char* ending : {"weight", "bias", "_extra_state"}) {
      const std::string canonical = std::string(row.canonical_stem()) + ending;
      for (const NameFamily family : kFamilies) {
        for (const bool is_short : {false, true}) {
          const auto spelling = table_.spell(canonical, family, is_short);
          if (!spelling) continue;
          SCOPED_TRACE(*spelling);
          const auto match = table_.match(with_layer(*spelling, 123));
          ASSERT_TRUE(match);
          EXPECT_EQ(match->spelling, *spelling);
          EXPECT_THAT(match->families, testing::Contains(family));
          // mcore's tied copy has the name of an untied output layer.
          if (canonical != kTiedCopyName || family == NameFamily::kLegacy) {
            EXPECT_EQ(match->canonical, canonical);
          }
        }
      }
    }
  }
}

TEST_F(ParameterTableTest, NamesAreSpelledInEveryFamilyThatHasThem) {
  const std::string norm = "decoder.layers.{}.input_layernorm.weight";
  EXPECT_EQ(table_.spell(norm, NameFamily::kLegacy),
            "language_model.encoder.layers.{}.input_layernorm.weight");
  EXPECT_EQ(table_.spell(norm, NameFamily::kLegacy, true),
            "language_model.encoder.layers.{}.input_norm.weight");
  EXPECT_EQ(table_.spell(norm, NameFamily::kMcoreLocal, true), norm);
  EXPECT_EQ(table_.spell(norm, NameFamily::kMcoreTransformerEngine),
            "decoder.layers.{}.self_attention.linear_qkv.layer_norm_weight");
  EXPECT_EQ(table_.spell(kTiedCopyName, NameFamily::kMcoreLocal), "output_layer.weight");
  EXPECT_EQ(table_.spell(kTiedCopyName, NameFamily::kLegacy), "word_embeddings_for_head.weight");
  EXPECT_EQ(table_.spell("output_layer.weight", NameFamily::kLegacy),
            "language_model.output_layer.weight");
  EXPECT_EQ(table_.spell("output_layer.weight", NameFamily::kFlat), std::nullopt);
  EXPECT_EQ(
      table_.spell("decoder.layers.{}.self_attention.q_layernorm.weight", NameFamily::kLegacy),
      std::nullopt);
  EXPECT_EQ(table_.spell("no.such.weight", NameFamily::kLegacy), std::nullopt);
}

TEST_F(ParameterTableTest, TransformerEngineCountsNormsBeforeTheirLinear) {
  std::vector<std::string> names;
  for (const char* name :
       {"input_layernorm.bias", "pre_mlp_layernorm.weight", "self_attention.linear_qkv.weight",
        "mlp.linear_fc2.bias", "self_attention.linear_proj.bias", "mlp.linear_fc1.weight",
        "self_attention.k_layernorm.weight", "input_layernorm.weight", "adapter.weight",
        "self_attention.q_layernorm.weight", "mlp.linear_fc2.weight"}) {
    names.push_back("decoder.layers.{}." + std::string(name));
  }
  std::stable_sort(names.begin(), names.end(), [&](const auto& left, const auto& right) {
    return table_.order(left, NameFamily::kMcoreTransformerEngine) <
           table_.order(right, NameFamily::kMcoreTransformerEngine);
  });
  for (std::string& name : names) name.erase(0, std::string("decoder.layers.{}.").size());
  EXPECT_THAT(names, testing::ElementsAre(
                         "self_attention.linear_proj.bias", "input_layernorm.weight",
                         "input_layernorm.bias", "self_attention.linear_qkv.weight",
                         "self_attention.q_layernorm.weight", "self_attention.k_layernorm.weight",
                         "pre_mlp_layernorm.weight", "mlp.linear_fc1.weight",
                         "mlp.linear_fc2.weight", "mlp.linear_fc2.bias", "adapter.weight"));
}

TEST_F(ParameterTableTest, UserRowsComeFirst) {
  const Status status = table_.add_rules(
      "# our adapters\n"
      "decoder\\.layers\\.(\\d+)\\.adapter\\.down\\.weight  rows   # a comment\r\n"
      "\n"
      "decoder\\.layers\\.(\\d+)\\.adapter\\.(?:up|side)\\.weight\tcolumns layer\n"
      "  soft_prompt\\.weight replicated embedding\n"
      "decoder\\.layers\\.(\\d+)\\.mlp\\.linear_fc1\\.weight rows\n"
      "head\\.(?:\\d+)\\.weight vocabulary output",
      "rules.txt");
  ASSERT_TRUE(status.ok()) << status.message();
  const auto down = table_.match("decoder.layers.12.adapter.down.weight");
  ASSERT_TRUE(down);
  EXPECT_EQ(down->canonical, "decoder.layers.{}.adapter.down.weight");
  EXPECT_EQ(down->spelling, down->canonical);
  EXPECT_EQ(down->layer, 12);
  EXPECT_EQ(down->partition, Partition::kRows);
  EXPECT_EQ(down->placement, Placement::kLayer);
  EXPECT_EQ(down->families.size(), std::size(kFamilies));
  EXPECT_EQ(table_.match("decoder.layers.0.adapter.side.weight")->partition, Partition::kColumns);
  EXPECT_FALSE(table_.match("decoder.layers.0.adapter.down.weight2"));
  const auto prompt = table_.match("soft_prompt.weight");
  EXPECT_EQ(prompt->placement, Placement::kEmbedding);
  EXPECT_EQ(prompt->layer, std::nullopt);
  EXPECT_EQ(table_.match("head.3.weight")->canonical, "head.3.weight");
  EXPECT_EQ(table_.order("decoder.layers.{}.adapter.down.weight", NameFamily::kMcoreLocal),
            table_.order("soft_prompt.weight", NameFamily::kLegacy));
}

TEST_F(ParameterTableTest, UserRowsKeepTheNamesThatBuiltInRowsKnow) {
  ASSERT_TRUE(table_
                  .add_rules("language_model\\.encoder\\.layers\\.(\\d+)\\..*\\.weight replicated",
                             "rules.txt")
                  .ok());
  const auto match = table_.match("language_model.encoder.layers.1.self_attention.dense.weight");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->partition, Partition::kReplicated);
  EXPECT_EQ(match->canonical, "decoder.layers.{}.self_attention.linear_proj.weight");
  EXPECT_EQ(match->families, std::vector{NameFamily::kLegacy});
}

TEST_F(ParameterTableTest, UserGroupThatIsNoNumberDoesNotMatch) {
  ASSERT_TRUE(table_.add_rules("decoder\\.(.+)\\.gain rows", "rules.txt").ok());
  EXPECT_EQ(table_.match("decoder.7.gain")->layer, 7);
  EXPECT_FALSE(table_.match("decoder.x.gain"));
  EXPECT_FALSE(table_.match("decoder.99999999999.gain"));
}

TEST_F(ParameterTableTest, WrongRulesAreNamedByLineAndToken) {
  EXPECT_EQ(rules_error("\n# c\na rows final\nb.weight\n"),
            "rules.txt:4: expected PATTERN PARTITION [PLACEMENT], found 1 word: \"b.weight\"");
  EXPECT_EQ(rules_error("a rows final more"),
            "rules.txt:1: expected PATTERN PARTITION [PLACEMENT], found 4 words: \"a\" ...");
  EXPECT_EQ(rules_error("a row final"),
            "rules.txt:1: partition: expected replicated, rows, columns, vocabulary, qkv or "
            "gated, found \"row\"");
  EXPECT_EQ(rules_error("a rows last"),
            "rules.txt:1: placement: expected embedding, layer, final or output, found \"last\"");
  EXPECT_EQ(rules_error("a\\.(\\d+ rows"), "rules.txt:1: pattern \"a\\\\.(\\\\d+\": missing )");
  EXPECT_EQ(rules_error("a rows"),
            "rules.txt:1: pattern \"a\": expected a group (\\d+) for the layer's number, or "
            "placement embedding, final or output");
  EXPECT_EQ(rules_error("a.(\\d+) rows final"),
            "rules.txt:1: pattern \"a.(\\\\d+)\": expected placement layer, as it has a group "
            "for the layer's number");
  EXPECT_THAT(rules_error(std::string("a\0b", 3) + " rows x"), testing::HasSubstr("\"x\""));
  EXPECT_EQ(rules_error("a rows final\n(?<b rows final").substr(0, 12), "rules.txt:2:");
  EXPECT_FALSE(table_.match("a")) << "a row of a refused file was taken";
}

TEST(WithLayer, FillsTheNumberIn) {
  EXPECT_EQ(with_layer("decoder.layers.{}.mlp.linear_fc1.weight", 7),
            "decoder.layers.7.mlp.linear_fc1.weight");
  EXPECT_EQ(with_layer("output_layer.weight", 7), "output_layer.weight");
}

TEST(NestedKeys, EndAtTheTransformer) {
  using testing::ElementsAre;
  EXPECT_THAT(
      nested_keys("language_model.encoder.layers.0.mlp.dense_h_to_4h.bias", NameFamily::kLegacy),
      ElementsAre("language_model", "encoder", "layers.0.mlp.dense_h_to_4h.bias"));
  EXPECT_THAT(nested_keys("language_model.embedding.word_embeddings.weight", NameFamily::kOld),
              ElementsAre("language_model", "embedding", "word_embeddings", "weight"));
  EXPECT_THAT(nested_keys("word_embeddings_for_head.weight", NameFamily::kLegacy),
              ElementsAre("word_embeddings_for_head", "weight"));
  EXPECT_THAT(nested_keys("language_model.output_layer._extra_state", NameFamily::kLegacy),
              ElementsAre("language_model", "output_layer", "_extra_state"));
  EXPECT_THAT(nested_keys("transformer.layers.0.mlp.dense_h_to_4h.bias", NameFamily::kFlat),
              ElementsAre("transformer.layers.0.mlp.dense_h_to_4h.bias"));
  EXPECT_THAT(nested_keys("decoder.final_layernorm.weight", NameFamily::kMcoreLocal),
              ElementsAre("decoder.final_layernorm.weight"));
}

TEST(HasWeightDecay, IsForMatricesThatAreNoBias) {
  EXPECT_TRUE(has_weight_decay("embedding.word_embeddings.weight", 2));
  EXPECT_FALSE(has_weight_decay("decoder.final_layernorm.weight", 1));
  EXPECT_FALSE(has_weight_decay("decoder.layers.{}.mlp.linear_fc1.bias", 1));
  EXPECT_FALSE(has_weight_decay("odd.bias", 2));
  EXPECT_TRUE(has_weight_decay("conv.weight", 3));
}

TEST(NameFamilyText, NamesEachFamily) {
  std::vector<std::string_view> texts;
  for (const NameFamily family : kFamilies) texts.push_back(name_family_text(family));
  EXPECT_THAT(texts, testing::ElementsAre("legacy", "old", "flat", "mcore",
                                          "mcore (Transformer Engine)", "hybrid"));
}

}  // namespace
}  // namespace meg::model
