// What a program makes of --load and its other flags, on checkpoints of Megatron-LM itself.

#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/nn/oracle_model.h"
#include "tools/common/flag_groups/inference_flags.h"

namespace meg::tools {
namespace {

using test::max_difference;
using test::read_npy;
using test::shared_path;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string oracle(const std::string& name) { return shared_path("oracle/checkpoints/" + name); }

Result<app::LoadedModel> load(const std::string& checkpoint,
                              const std::vector<std::string>& more = {}) {
  at::set_num_threads(1);
  InferenceFlags inference;
  Flags flags("evaluate_gpt", "uses a trained model");
  declare_inference_flags(flags, megatron::ArgumentFamily::kTasks, {}, inference);
  const std::string path = oracle(checkpoint), vocab = oracle("gpt2-vocab.json"),
                    merges = oracle("gpt2-merges.txt");
  std::vector<const char*> argv = {"evaluate_gpt", "--load",      path.c_str(),
                                   "--vocab-file", vocab.c_str(), "--merge-file",
                                   merges.c_str(), "--device",    "cpu"};
  for (const std::string& argument : more) argv.push_back(argument.c_str());
  std::ostringstream out, err;
  const auto code = flags.parse(static_cast<int>(argv.size()), argv.data(), out, err);
  EXPECT_EQ(code, std::nullopt) << err.str();
  MEG_RETURN_IF_ERROR(finish_inference_flags(flags, inference));
  return app::load_model(inference);
}

std::string error_of(const Result<app::LoadedModel>& loaded) {
  EXPECT_FALSE(loaded.has_value());
  return loaded.status().message();
}

const std::vector<std::string> kShapeFlags = {"--num-layers",
                                              "4",
                                              "--hidden-size",
                                              "32",
                                              "--num-attention-heads",
                                              "4",
                                              "--max-position-embeddings",
                                              "64"};

std::vector<std::string> with(std::vector<std::string> flags,
                              const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

/// What a checkpoint must reproduce.
struct Forward {
  const char* checkpoint;
  const char* reference;
  bool says_its_gelu = true;
};

class LoadedForward : public ::testing::TestWithParam<Forward> {};

TEST_P(LoadedForward, ComputesAsTheRunDid) {
  const Forward& expected = GetParam();
  MEG_REQUIRE_SHARED(std::string("oracle/checkpoints/") + expected.checkpoint);
  auto loaded = load(expected.checkpoint, expected.says_its_gelu
                                              ? std::vector<std::string>()
                                              : with(kShapeFlags, {"--no-bias-gelu-fusion"}));
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  const std::string reference = oracle(expected.reference) + "/reference/";
  const at::Tensor tokens = read_npy<int64_t>(reference + "tokens.npy");
  const at::Tensor logits = read_npy<float>(reference + "logits.npy");
  const at::Tensor losses = read_npy<float>(reference + "lm_loss.npy");
  const at::Tensor greedy = read_npy<int64_t>(reference + "greedy.npy");
  const c10::InferenceMode without_gradients;
  const nn::GptInput input = {.tokens = tokens.narrow(1, 0, tokens.size(1) - 1)};
  const auto found = loaded->model.logits(input);
  ASSERT_TRUE(found.has_value()) << found.error().message();
  const int64_t columns = std::min(found->size(-1), logits.size(-1));
  EXPECT_LT(max_difference(found->narrow(-1, 0, columns), logits.narrow(-1, 0, columns)), 1e-5);
  if (found->size(-1) == logits.size(-1)) {
    const auto loss = loaded->model.loss(input, tokens.narrow(1, 1, tokens.size(1) - 1));
    ASSERT_TRUE(loss.has_value()) << loss.error().message();
    EXPECT_LT(max_difference(*loss, losses.view_as(*loss)), 1e-5);
  }
  const int64_t vocabulary = logits.size(-1) == 300 ? 296 : loaded->tokenizer->vocab_size();
  at::Tensor written = greedy.narrow(1, 0, 8);
  while (written.size(1) < greedy.size(1)) {
    const auto next = loaded->model.logits({.tokens = written});
    ASSERT_TRUE(next.has_value());
    const at::Tensor last = next->select(1, written.size(1) - 1).narrow(-1, 0, vocabulary);
    written = at::cat({written, last.argmax(-1, true)}, 1);
  }
  EXPECT_TRUE(at::equal(written, greedy)) << written << greedy;
}

INSTANTIATE_TEST_SUITE_P(
    Oracle, LoadedForward,
    ::testing::Values(Forward{"gpt_tp1pp1_fp32", "gpt_tp1pp1_fp32"},
                      Forward{"gpt_tp1pp1_fp32__to_tp2pp2", "gpt_tp1pp1_fp32"},
                      Forward{"gpt_tp2pp2_fp16", "gpt_tp2pp2_fp16__to_tp1pp1"},
                      Forward{"gpt_tp2pp2_fp16__to_tp4pp1_novocab", "gpt_tp2pp2_fp16__to_tp1pp1"},
                      Forward{"gpt_tp2pp2_bf16_untied", "gpt_tp2pp2_bf16_untied__to_tp1pp1"},
                      Forward{"gpt_tp2pp1_llamaish_bf16__to_tp4pp2",
                              "gpt_tp2pp1_llamaish_bf16__to_tp1pp1"},
                      Forward{"old_v0_tp2", "gpt_tp2pp2_fp16__to_tp1pp1", false},
                      Forward{"old_flat2019_tp2", "gpt_tp2pp2_fp16__to_tp1pp1", false},
                      Forward{"old_deepspeed_tp2", "gpt_tp2pp2_fp16__to_tp1pp1", false},
                      Forward{"megatron_from_hf_gpt2", "hf_gpt2"}),
    [](const auto& tested) { return std::string(tested.param.checkpoint); });

TEST(LoadInferenceModel, TakesAnIterationFolderAndOneFile) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/gpt_tp1pp1_fp32");
  for (const char* path : {"gpt_tp1pp1_fp32/iter_0005000",
                           "gpt_tp1pp1_fp32/iter_0005000/mp_rank_00/model_optim_rng.pt"}) {
    const auto loaded = load(path);
    ASSERT_TRUE(loaded.has_value()) << path << ": " << loaded.error().message();
    EXPECT_EQ(loaded->iteration, 5000);
    EXPECT_EQ(loaded->model.config().num_layers, 4);
  }
}

TEST(LoadInferenceModel, WeightsWidenUnlessAFlagSaysOtherwise) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/gpt_tp2pp2_fp16");
  const auto type_with = [](const std::vector<std::string>& flags) {
    const auto loaded = load("gpt_tp2pp2_fp16", flags);
    EXPECT_TRUE(loaded.has_value()) << loaded.status().message();
    return loaded->model.options().params_dtype;
  };
  EXPECT_EQ(type_with({}), at::kFloat);
  EXPECT_EQ(type_with({"--bf16"}), at::kBFloat16);
  EXPECT_EQ(type_with({"--fp16"}), at::kHalf);
  EXPECT_THAT(error_of(load("gpt_tp2pp2_fp16", {"--fp16", "--bf16"})),
              HasSubstr("--fp16 and --bf16"));
}

TEST(LoadInferenceModel, GeluIsTheRunsUnlessAFlagSaysOtherwise) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/megatron_from_hf_gpt2");
  const auto loaded = load("megatron_from_hf_gpt2");
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  EXPECT_EQ(loaded->model.options().gelu, nn::GeluForm::kTanh);
  const auto without = load("megatron_from_hf_gpt2", {"--no-bias-gelu-fusion"});
  ASSERT_TRUE(without.has_value()) << without.error().message();
  EXPECT_EQ(without->model.options().gelu, nn::GeluForm::kErf);
}

TEST(LoadInferenceModel, ModelFlagsThatAgreeAreTaken) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/gpt_tp2pp2_fp16");
  EXPECT_TRUE(load("gpt_tp2pp2_fp16", kShapeFlags).has_value());
  const auto partly = load("gpt_tp2pp2_fp16", {"--num-layers", "4", "--use-checkpoint-args"});
  EXPECT_TRUE(partly.has_value()) << partly.error().message();
  const auto length = load("gpt_tp2pp2_fp16", {"--seq-length", "16"});
  ASSERT_TRUE(length.has_value()) << length.error().message();
  EXPECT_EQ(length->sequence_length, 16);
  EXPECT_EQ(length->model.config().max_position_embeddings, 64);
}

TEST(LoadInferenceModel, ContradictionsAreListed) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/gpt_tp2pp2_fp16");
  EXPECT_THAT(error_of(load("gpt_tp2pp2_fp16",
                            {"--num-layers", "6", "--hidden-size", "64", "--num-attention-heads",
                             "4", "--max-position-embeddings", "64"})),
              AllOf(HasSubstr("num_layers: expected 6, found 4"),
                    HasSubstr("hidden_size: expected 64, found 32")));
  EXPECT_THAT(error_of(load("gpt_tp2pp2_fp16", {"--use-checkpoint-args", "--swiglu"})),
              HasSubstr("swiglu: expected True, found False"));
  EXPECT_THAT(
      error_of(load("gpt_tp2pp2_fp16", {"--num-layers", "4"})),
      HasSubstr("--num-layers, --hidden-size, --num-attention-heads: expected all of them"));
  EXPECT_THAT(error_of(load("gpt_tp2pp2_fp16", {"--seq-length", "65"})),
              HasSubstr("`seq_length`: expected at most max_position_embeddings 64, found 65"));
}

TEST(LoadInferenceModel, OtherArchitecturesAreRefusedWhereFlagsMeanMegatronsDefaults) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/gpt_tp2pp1_llamaish_bf16");
  EXPECT_THAT(error_of(load("gpt_tp2pp1_llamaish_bf16", kShapeFlags)),
              AllOf(HasSubstr("position_embedding_type"), HasSubstr("swiglu")));
}

TEST(LoadInferenceModel, ATokenizerWithMoreTokensThanRowsIsRefused) {
  MEG_REQUIRE_SHARED("data/gpt2/vocab.json");
  const auto loaded =
      load("gpt_tp2pp2_fp16", {"--vocab-file", shared_path("data/gpt2/vocab.json"), "--merge-file",
                               shared_path("data/gpt2/merges.txt")});
  EXPECT_THAT(error_of(loaded),
              HasSubstr("not the tokenizer of this checkpoint: expected at most"));
}

}  // namespace
}  // namespace meg::tools
