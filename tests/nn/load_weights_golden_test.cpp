#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "libmeg/nn/load_weights.h"
#include "tests/checkpoint/transfer/transfer_files.h"
#include "tests/nn/oracle_model.h"
#include "tests/temp_folder.h"

namespace meg::nn {
namespace {

using test::model_of;
using test::open_checkpoint;

constexpr const char* kCase = "oracle/checkpoints/gpt_tp2pp2_fp16";

/// The model of kCase, changed, or what loading it says.
std::string loading(const std::function<void(model::GptConfig&, GptOptions&)>& change) {
  const auto checkpoint = open_checkpoint(test::shared_path(kCase));
  if (!checkpoint.has_value()) return checkpoint.error().message();
  return model_of(*checkpoint, change).status().message();
}

TEST(LoadWeightsGolden, WideningIsExactAndRoundsBack) {
  MEG_REQUIRE_SHARED(kCase);
  const auto checkpoint = open_checkpoint(test::shared_path(kCase));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  const auto wide = model_of(*checkpoint);
  const auto half = model_of(*checkpoint, [](model::GptConfig&, GptOptions& options) {
    options.params_dtype = at::kHalf;
  });
  ASSERT_TRUE(wide.has_value() && half.has_value());
  for (size_t i = 0; i < wide->parameters().size(); ++i) {
    const GptParameter& parameter = wide->parameters()[i];
    EXPECT_TRUE(at::equal(parameter.tensor, half->parameters()[i].tensor.to(at::kFloat)))
        << parameter.name;
  }
}

TEST(LoadWeightsGolden, ADamagedTensorIsNotLoaded) {
  MEG_REQUIRE_SHARED(kCase);
  const test::TempFolder folder;
  std::filesystem::copy(test::shared_path(kCase), folder.path("copy"),
                        std::filesystem::copy_options::recursive);
  const auto checkpoint = open_checkpoint(folder.path("copy"));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  for (const checkpoint::LogicalParameter& parameter : checkpoint->parameters()) {
    const auto extent = parameter.tensors[0].pieces[0].source->file_extent();
    ASSERT_TRUE(extent.has_value());
    test::flip_bit(*extent, 1);
    const std::string message = model_of(*checkpoint).status().message();
    EXPECT_NE(message.find("CRC-32: expected"), std::string::npos) << parameter.name << message;
    test::flip_bit(*extent, 1);
  }
  EXPECT_TRUE(model_of(*checkpoint).has_value());
}

TEST(LoadWeightsGolden, RowsThatTheCheckpointLacksRepeatItsLast) {
  MEG_REQUIRE_SHARED(kCase);
  const auto checkpoint = open_checkpoint(test::shared_path(kCase));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  const int64_t rows = checkpoint->parameters().front().shape[0];
  const auto model = model_of(*checkpoint, [&](model::GptConfig& config, GptOptions&) {
    config.padded_vocab_size = rows + 5;
  });
  ASSERT_TRUE(model.has_value()) << model.error().message();
  const at::Tensor table = model->parameters()[0].tensor;
  for (int64_t i = rows; i < rows + 5; ++i) EXPECT_TRUE(at::equal(table[i], table[rows - 1]));
}

TEST(LoadWeightsGolden, PaddingIsCutOnlyWithTheTrueVocabulary) {
  MEG_REQUIRE_SHARED(kCase);
  const auto checkpoint = open_checkpoint(test::shared_path(kCase));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  model::GptConfig config = checkpoint->config();
  config.padded_vocab_size = 292;
  auto model = GptModel::create(config, {});
  ASSERT_TRUE(model.has_value()) << model.error().message();
  EXPECT_EQ(load_weights(*checkpoint, *model).message(),
            "embedding.word_embeddings.weight: rows of the vocabulary: expected at least 304, "
            "found space for 292");
  LoadWeightsOptions options;
  options.true_vocab_size = 290;
  EXPECT_TRUE(load_weights(*checkpoint, *model, options).ok());
  options.true_vocab_size = 293;
  EXPECT_FALSE(load_weights(*checkpoint, *model, options).ok());
}

TEST(LoadWeightsGolden, NamesParametersThatDoNotFit) {
  MEG_REQUIRE_SHARED(kCase);
  EXPECT_EQ(loading([](model::GptConfig& config, GptOptions&) {
              config.untie_embeddings_and_output_weights = true;
            }),
            "output_layer.weight: the model has this parameter, the checkpoint does not");
  EXPECT_EQ(loading([](model::GptConfig& config, GptOptions&) { config.num_layers = 3; }),
            "decoder.layers.3.input_layernorm.weight: the checkpoint has this parameter, the model "
            "does not");
  EXPECT_THAT(loading([](model::GptConfig& config, GptOptions&) { config.ffn_hidden_size = 64; }),
              ::testing::HasSubstr("decoder.layers.0.mlp.linear_fc1.weight: expected shape "));
}

TEST(LoadWeightsGolden, AStageTakesItsPart) {
  MEG_REQUIRE_SHARED(kCase);
  const auto checkpoint = open_checkpoint(test::shared_path(kCase));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  const auto whole = model_of(*checkpoint);
  ASSERT_TRUE(whole.has_value());
  ModelPart part;
  part.sizes.pipeline_model_parallel_size = 4;
  part.pipeline_rank = 3;
  auto stage = GptModel::create(checkpoint->config(), {}, part);
  ASSERT_TRUE(stage.has_value()) << stage.error().message();
  ASSERT_TRUE(load_weights(*checkpoint, *stage).ok());
  EXPECT_EQ(stage->parameters().back().name, model::kTiedCopyName);
  EXPECT_TRUE(at::equal(stage->parameters().back().tensor, whole->parameters().front().tensor));
}

}  // namespace
}  // namespace meg::nn
