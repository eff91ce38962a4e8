#include "libmeg/app/load_model.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libmeg/checkpoint/dialects/mp_rank/open_weights.h"
#include "libmeg/megatron/argument_table.h"

namespace meg::app {
namespace {

using ::testing::HasSubstr;

constexpr char kCheckpoint[] = MEG_SOURCE_DIR "/testdata/checkpoint";

/// The checkpoint of testdata, saved as TP2 PP2: 4 layers, hidden size 8, 16 positions, 75 tokens.
ModelRequest small_request() {
  ModelRequest request;
  request.args = megatron::ArgumentValues::defaults(
      megatron::argument_rows(megatron::ArgumentFamily::kTraining));
  request.device = "cpu";
  request.load = kCheckpoint;
  request.tokenizer.tokenizer_type = "NullTokenizer";
  request.tokenizer.vocab_size = 75;
  return request;
}

/// Gives the value like a flag of the command line.
void give(ModelRequest& request, std::string_view dest, int64_t value) {
  request.args.give(*megatron::find_argument(megatron::ArgumentFamily::kTraining, dest), value);
}

std::string error_of(const ModelRequest& request) {
  const auto loaded = load_model(request);
  EXPECT_FALSE(loaded.has_value());
  if (loaded.has_value()) return "";
  EXPECT_EQ(loaded.error().code(), StatusCode::kInvalidArgument);
  return loaded.error().message();
}

TEST(LoadModelTest, PutsTheRanksTogetherToAModelThatComputes) {
  auto loaded = load_model(small_request());
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  EXPECT_EQ(loaded->iteration, 100);
  EXPECT_EQ(loaded->sequence_length, 16);
  EXPECT_EQ(loaded->tokenizer->vocab_size(), 75);
  EXPECT_EQ(loaded->model.config().num_layers, 4);
  EXPECT_EQ(loaded->model.config().padded_vocab_size, 80);
  const auto logits = loaded->model.logits({.tokens = at::arange(16).unsqueeze(0)});
  ASSERT_TRUE(logits.has_value()) << logits.error().message();
  EXPECT_EQ(logits->sizes(), at::IntArrayRef({1, 16, 80}));
  EXPECT_TRUE(at::isfinite(*logits).all().item<bool>());
}

TEST(LoadModelTest, ModelsDropNothing) {
  auto loaded = load_model(small_request());
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  const at::Tensor tokens = at::arange(16).unsqueeze(0);
  const auto first = loaded->model.logits({.tokens = tokens});
  const auto second = loaded->model.logits({.tokens = tokens});
  EXPECT_TRUE(at::equal(*first, *second));
}

TEST(LoadModelTest, FlagsThatContradictTheCheckpointAreNamed) {
  ModelRequest request = small_request();
  // Once a flag gives the model's shape, flags give all of it.
  give(request, "hidden_size", 8);
  give(request, "num_attention_heads", 4);
  give(request, "num_layers", 5);
  EXPECT_THAT(error_of(request), HasSubstr("num_layers"));
}

TEST(LoadModelTest, UseCheckpointArgsStillRefusesAFlagThatContradicts) {
  ModelRequest request = small_request();
  request.use_checkpoint_args = true;
  EXPECT_TRUE(load_model(request).has_value());
  give(request, "hidden_size", 16);
  EXPECT_THAT(error_of(request), HasSubstr("hidden_size"));
}

TEST(LoadModelTest, ATokenizerWithMoreTokensThanRowsIsRefused) {
  ModelRequest request = small_request();
  request.tokenizer.vocab_size = 81;
  EXPECT_THAT(error_of(request), HasSubstr("expected at most 80 tokens"));
}

TEST(LoadModelTest, SequencesEndWithTheLearnedPositions) {
  ModelRequest request = small_request();
  request.sequence_length = 8;
  EXPECT_EQ(load_model(request)->sequence_length, 8);
  request.sequence_length = 17;
  EXPECT_THAT(error_of(request), HasSubstr("`seq_length`: expected at most"));
}

TEST(OpenWeightsTest, AnIterationThatIsNotThereIsNamed) {
  const auto opened = checkpoint::open_weights(kCheckpoint, {}, 200);
  ASSERT_FALSE(opened.has_value());
  EXPECT_THAT(opened.error().message(), HasSubstr("200"));
  EXPECT_TRUE(checkpoint::open_weights(kCheckpoint, {}, 100).has_value());
}

}  // namespace
}  // namespace meg::app
