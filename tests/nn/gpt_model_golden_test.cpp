// Logits, losses and greedy tokens of Megatron-LM's own forward pass (6ef5bdc, in fp32), and of
// transformers' where a checkpoint came from there.

#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/nn/oracle_model.h"

namespace meg::nn {
namespace {

using test::max_difference;
using test::model_of;
using test::open_checkpoint;
using test::read_npy;

/// What a checkpoint must reproduce.
struct Forward {
  const char* checkpoint;
  const char* reference;  ///< The folder whose reference/ it reproduces.
  GeluForm gelu;          ///< Of logits.npy, unless SwiGLU.
};

std::string oracle(const std::string& name) {
  return test::shared_path("oracle/checkpoints/" + name);
}

/// Columns of the model that the reference has too: paddings differ.
at::Tensor narrow_to(const at::Tensor& logits, const at::Tensor& reference) {
  return logits.narrow(-1, 0, std::min(logits.size(-1), reference.size(-1)));
}

class GoldenForward : public ::testing::TestWithParam<Forward> {};

TEST_P(GoldenForward, LogitsLossesAndGreedyTokensAgree) {
  const Forward& expected = GetParam();
  MEG_REQUIRE_SHARED(std::string("oracle/checkpoints/") + expected.checkpoint);
  const auto checkpoint = open_checkpoint(oracle(expected.checkpoint));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  const std::string reference = oracle(expected.reference) + "/reference/";
  const at::Tensor tokens = read_npy<int64_t>(reference + "tokens.npy");
  const at::Tensor logits = read_npy<float>(reference + "logits.npy");
  const at::Tensor losses = read_npy<float>(reference + "lm_loss.npy");
  const at::Tensor greedy = read_npy<int64_t>(reference + "greedy.npy");
  const c10::NoGradGuard without_gradients;
  const GptInput input = {.tokens = tokens.narrow(1, 0, tokens.size(1) - 1)};
  for (const AttentionBackend backend : {AttentionBackend::kAuto, AttentionBackend::kLocal}) {
    auto model = model_of(*checkpoint, [&](model::GptConfig&, GptOptions& options) {
      options.attention_backend = backend;
      options.gelu = expected.gelu;
    });
    ASSERT_TRUE(model.has_value()) << model.error().message();
    const auto found = model->logits(input);
    ASSERT_TRUE(found.has_value()) << found.error().message();
    const at::Tensor common = narrow_to(*found, logits);
    EXPECT_LT(max_difference(common, narrow_to(logits, common)), 1e-5);
    const auto loss = model->loss(input, tokens.narrow(1, 1, tokens.size(1) - 1).contiguous());
    ASSERT_TRUE(loss.has_value()) << loss.error().message();
    if (found->size(-1) == logits.size(-1)) {
      EXPECT_LT(max_difference(*loss, losses.view_as(*loss)), 1e-5);
    }
    at::Tensor written = greedy.narrow(1, 0, 8);
    while (written.size(1) < greedy.size(1)) {
      const auto next = model->logits({.tokens = written});
      ASSERT_TRUE(next.has_value());
      const int64_t vocabulary = logits.size(-1) == 300 ? 296 : 290;
      const at::Tensor best =
          next->select(1, written.size(1) - 1).narrow(-1, 0, vocabulary).argmax(-1, true);
      written = at::cat({written, best}, 1);
    }
    EXPECT_TRUE(at::equal(written, greedy)) << written << greedy;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Oracle, GoldenForward,
    ::testing::Values(
        Forward{"gpt_tp1pp1_fp32", "gpt_tp1pp1_fp32", GeluForm::kErf},
        Forward{"gpt_tp1pp1_fp32__to_tp2pp2", "gpt_tp1pp1_fp32", GeluForm::kErf},
        Forward{"gpt_tp2pp2_fp16", "gpt_tp2pp2_fp16__to_tp1pp1", GeluForm::kErf},
        Forward{"gpt_tp2pp2_fp16__to_tp1pp1", "gpt_tp2pp2_fp16__to_tp1pp1", GeluForm::kErf},
        Forward{"gpt_tp2pp2_fp16__to_tp4pp1", "gpt_tp2pp2_fp16__to_tp1pp1", GeluForm::kErf},
        Forward{"gpt_tp2pp2_fp16__to_tp1pp4", "gpt_tp2pp2_fp16__to_tp1pp1", GeluForm::kErf},
        Forward{"old_v0_tp2", "gpt_tp2pp2_fp16__to_tp1pp1", GeluForm::kErf},
        Forward{"old_v1_tp2", "gpt_tp2pp2_fp16__to_tp1pp1", GeluForm::kErf},
        Forward{"old_flat2019_tp2", "gpt_tp2pp2_fp16__to_tp1pp1", GeluForm::kErf},
        Forward{"old_deepspeed_tp2", "gpt_tp2pp2_fp16__to_tp1pp1", GeluForm::kErf},
        Forward{"gpt_tp2pp2_bf16_untied", "gpt_tp2pp2_bf16_untied__to_tp1pp1", GeluForm::kErf},
        Forward{"gpt_tp2pp2_bf16_untied__to_tp4pp1", "gpt_tp2pp2_bf16_untied__to_tp1pp1",
                GeluForm::kErf},
        Forward{"gpt_tp2pp1_llamaish_bf16", "gpt_tp2pp1_llamaish_bf16__to_tp1pp1", GeluForm::kErf},
        Forward{"gpt_tp2pp1_llamaish_bf16__to_tp4pp2", "gpt_tp2pp1_llamaish_bf16__to_tp1pp1",
                GeluForm::kErf},
        Forward{"megatron_from_hf_gpt2", "hf_gpt2", GeluForm::kTanh},
        Forward{"megatron_from_hf_llama_tp2", "hf_llama", GeluForm::kErf}),
    [](const auto& tested) { return std::string(tested.param.checkpoint); });

TEST(GptModelGolden, TanhGeluIsTheOtherFunction) {
  for (const char* name : {"gpt_tp1pp1_fp32", "gpt_tp2pp2_bf16_untied__to_tp1pp1"}) {
    MEG_REQUIRE_SHARED(std::string("oracle/checkpoints/") + name);
    const auto checkpoint = open_checkpoint(oracle(name));
    ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
    auto model = model_of(*checkpoint, [](model::GptConfig&, GptOptions& options) {
      EXPECT_EQ(options.gelu, GeluForm::kErf) << "the run had its fusion off";
      options.gelu = GeluForm::kTanh;
    });
    ASSERT_TRUE(model.has_value()) << model.error().message();
    const c10::NoGradGuard without_gradients;
    const std::string reference = oracle(name) + "/reference/";
    const at::Tensor tokens = read_npy<int64_t>(reference + "tokens.npy");
    const auto logits = model->logits({.tokens = tokens.narrow(1, 0, tokens.size(1) - 1)});
    ASSERT_TRUE(logits.has_value()) << logits.error().message();
    EXPECT_LT(max_difference(*logits, read_npy<float>(reference + "logits_gelu_tanh.npy")), 1e-5);
    EXPECT_GT(max_difference(*logits, read_npy<float>(reference + "logits.npy")), 1e-4);
  }
}

}  // namespace
}  // namespace meg::nn
