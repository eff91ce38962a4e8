// Greedy texts through the cache beside those that Megatron-LM's own forward pass (6ef5bdc, in
// fp32) and transformers' made.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libmeg/generation/generate.h"
#include "libmeg/generation/model_engine.h"
#include "tests/generation/letter_tokenizer.h"
#include "tests/nn/oracle_model.h"

namespace meg::generation {
namespace {

using serving::GeneratedText;
using serving::GenerationRequest;

struct Case {
  const char* checkpoint;
  const char* reference;  ///< The folder whose reference/ it reproduces.
  nn::GeluForm gelu;
};

std::vector<int32_t> row_of(const at::Tensor& tokens, int64_t row) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < tokens.size(1); ++i) ids.push_back(tokens[row][i].item<int32_t>());
  return ids;
}

class GoldenGeneration : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenGeneration, GreedyTextsAreThoseOfTheReference) {
  const std::string folder = "oracle/checkpoints/";
  MEG_REQUIRE_SHARED(folder + GetParam().checkpoint);
  const auto checkpoint = test::open_checkpoint(test::shared_path(folder + GetParam().checkpoint));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  auto model = test::model_of(*checkpoint, [](model::GptConfig&, nn::GptOptions& options) {
    options.gelu = GetParam().gelu;
  });
  ASSERT_TRUE(model.has_value()) << model.error().message();
  const std::string reference =
      test::shared_path(folder + GetParam().reference + "/reference/greedy.npy");
  const at::Tensor greedy = test::read_npy<int64_t>(reference);
  const bool is_from_transformers = std::string(GetParam().reference).starts_with("hf_");
  const bool is_llama = std::string(GetParam().reference) == "hf_llama";
  const auto tokenizer = test::LetterTokenizer::numbers(!is_from_transformers ? 290
                                                        : is_llama            ? 296
                                                                              : 300);
  // Each reference is queried with every length of its beginning: prompts of different lengths,
  // which must all come to the same text.
  std::vector<serving::GenerationRequest> requests;
  std::vector<std::vector<int32_t>> wanted;
  for (int64_t size = 8; size < greedy.size(1); ++size) {
    for (int64_t row = 0; row < greedy.size(0); ++row) {
      wanted.push_back(row_of(greedy, row));
      serving::GenerationRequest request;
      request.prompt.assign(wanted.back().begin(), wanted.back().begin() + size);
      request.tokens_to_generate = greedy.size(1) - size;
      request.sampling.top_k = 1;
      request.stop.on_eod = false;
      requests.push_back(request);
    }
  }
  // One at a time; more than fit at once, so that they start one after another; all in one batch.
  for (const int64_t slots : {int64_t{1}, int64_t{5}, std::ssize(requests)}) {
    auto engine = create_generation_engine(*model, tokenizer, {.max_slots = slots});
    ASSERT_TRUE(engine.has_value()) << engine.error().message();
    const auto texts = generate(**engine, requests);
    ASSERT_TRUE(texts.has_value()) << texts.error().message();
    for (size_t i = 0; i < texts->size(); ++i) {
      EXPECT_EQ((*texts)[i].tokens, wanted[i]) << slots << " slots, text " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Oracle, GoldenGeneration,
    ::testing::Values(
        Case{"gpt_tp1pp1_fp32", "gpt_tp1pp1_fp32", nn::GeluForm::kErf},
        Case{"gpt_tp1pp1_fp32__to_tp2pp2", "gpt_tp1pp1_fp32", nn::GeluForm::kErf},
        Case{"gpt_tp2pp2_fp16", "gpt_tp2pp2_fp16__to_tp1pp1", nn::GeluForm::kErf},
        Case{"old_v0_tp2", "gpt_tp2pp2_fp16__to_tp1pp1", nn::GeluForm::kErf},
        Case{"gpt_tp2pp2_bf16_untied", "gpt_tp2pp2_bf16_untied__to_tp1pp1", nn::GeluForm::kErf},
        Case{"gpt_tp2pp1_llamaish_bf16", "gpt_tp2pp1_llamaish_bf16__to_tp1pp1", nn::GeluForm::kErf},
        Case{"megatron_from_hf_gpt2", "hf_gpt2", nn::GeluForm::kTanh},
        Case{"megatron_from_hf_llama_tp2", "hf_llama", nn::GeluForm::kErf}),
    [](const auto& tested) { return std::string(tested.param.checkpoint); });

}  // namespace
}  // namespace meg::generation
