// What libmeg asks of a GPU, counted on one that computes nothing: all that comes back is what was
// copied there or zero. A GPT of 24 layers in bf16, as the 345M model has.

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <functional>

#include "libmeg/evaluation/scoring.h"
#include "libmeg/generation/model_engine.h"
#include "libmeg/nn/internal/decode_graphs.h"
#include "libmeg/nn/operators/internal/embedding_sum.h"
#include "tests/generation/letter_tokenizer.h"
#include "tests/pretended_device/budget.h"
#include "tests/pretended_device/cuda_library.h"
#include "tests/temp_folder.h"
#include "tests/train/small_run.h"

namespace meg {
namespace {

using pretended::take_counts;
using test::expect_within_budget;

class PretendedDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::load_cuda_library()) GTEST_SKIP() << "this LibTorch is for CPUs only";
  }
};

model::GptConfig gpt_of_24_layers() {
  model::GptConfig config = test::small_config();
  config.num_layers = 24;
  config.hidden_size = 128;
  config.ffn_hidden_size = 512;
  config.num_attention_heads = config.num_query_groups = 2;
  config.kv_channels = 64;
  config.max_position_embeddings = config.seq_length = 64;
  config.padded_vocab_size = 128;
  return config;
}

nn::GptOptions on_gpu() {
  nn::GptOptions options;
  options.device = at::Device(at::kCUDA, 0);
  options.params_dtype = at::kBFloat16;
  return options;
}

/// A run of four steps of such many micro-batches, of 2 samples each.
train::TrainerOptions run_on_gpu(int64_t micro_batches, int64_t eval_iters = 0,
                                 const model::GptConfig& config = gpt_of_24_layers()) {
  auto options = test::small_run({.train_iters = 4, .eval_iters = eval_iters, .eval_interval = 4},
                                 config, micro_batches);
  options.model = on_gpu();
  return options;
}

/// What a run asked for from one report to the next.
struct WatchedRun {
  explicit WatchedRun(train::TrainerOptions options) {
    test::SmallTrainer run(std::move(options));
    EXPECT_NE(run.trainer, nullptr) << run.status.message();
    if (run.trainer == nullptr) return;
    run.trainer->watch([this](const auto&) { steps.push_back(take_counts()); },
                       [this](const auto&) { evaluations.push_back(take_counts()); });
    const Status status = run.run();
    EXPECT_TRUE(status.ok()) << status.message();
    end = take_counts();
  }

  std::vector<pretended::Counts> steps, evaluations;
  pretended::Counts end;  ///< Since the last report.
};

TEST_F(PretendedDeviceTest, CountsOperationsAndWaits) {
  const auto on_host = at::ones({1000}, at::dtype(at::kFloat).pinned_memory(true));
  take_counts();
  const at::Tensor there = on_host.to(at::kCUDA, at::kFloat, /*non_blocking=*/true, /*copy=*/true);
  EXPECT_EQ(take_counts().host_waits, 0);
  EXPECT_EQ(there[7].item<float>(), 1) << "copies are real";
  pretended::Counts counts = take_counts();
  EXPECT_EQ(counts.copies, 1);
  EXPECT_EQ(counts.host_waits, 1);
  EXPECT_EQ(counts.to_host_bytes, sizeof(float));
  c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(0);
  EXPECT_EQ(take_counts().host_waits, 0) << "nothing was left to wait for";
  const at::Tensor sums = there + there;
  EXPECT_EQ(sums.cpu()[7].item<float>(), 0) << "kernels do nothing";
  counts = take_counts();
  EXPECT_EQ(counts.operations(), 2);
  EXPECT_EQ(counts.kernels.size(), 1U);
  EXPECT_EQ(counts.host_waits, 1);
  EXPECT_EQ(counts.allocated_bytes, 1000 * int64_t{sizeof(float)});
}

TEST_F(PretendedDeviceTest, BudgetRefusesMore) {
  if (test::writes_budget()) GTEST_SKIP() << "budget.txt is being written";
  pretended::Counts counts;
  expect_within_budget("nothing", counts);
  counts.host_waits = 1;
  EXPECT_NONFATAL_FAILURE(expect_within_budget("nothing", counts), "nothing: more host_waits");
}

TEST_F(PretendedDeviceTest, TrainingStep) {
  const WatchedRun run(run_on_gpu(/*micro_batches=*/1));
  expect_within_budget("training_step", run.steps.at(2));
}

/// Where nothing is dropped attention is cuDNN's, which writes its gradient where the next product
/// reads it: no kernel moves heads.
TEST_F(PretendedDeviceTest, TrainingStepWithoutDropout) {
  train::TrainerOptions options = run_on_gpu(/*micro_batches=*/1);
  options.model.attention_dropout = options.model.hidden_dropout = 0;
  const WatchedRun run(std::move(options));
  const pretended::Counts& counts = run.steps.at(2);
  expect_within_budget("without_dropout", counts);
  EXPECT_EQ(counts.kernels.count("meg::kernels::copy_kernel"), 0);
  EXPECT_EQ(counts.kernels.at("cudnnBackendExecute"), 2 * gpt_of_24_layers().num_layers);
}

TEST_F(PretendedDeviceTest, DropoutInSixteenthsLeavesAttentionToCudnn) {
  train::TrainerOptions options = run_on_gpu(/*micro_batches=*/1);
  options.model.attention_dropout = 0.125;
  const WatchedRun run(std::move(options));
  const pretended::Counts& counts = run.steps.at(2);
  EXPECT_EQ(counts.kernels.count("meg::kernels::copy_kernel"), 0);
  EXPECT_EQ(counts.kernels.at("cudnnBackendExecute"), 2 * gpt_of_24_layers().num_layers);
}

/// The model has what Llama's layers have: RMSNorm, rotary embedding, grouped queries, SwiGLU, no
/// biases.
TEST_F(PretendedDeviceTest, TrainingStepOfLlama) {
  model::GptConfig config = gpt_of_24_layers();
  config.num_query_groups = 1;
  config.normalization = "RMSNorm";
  config.position_embedding_type = "rope";
  config.gated_linear_unit = config.swiglu = true;
  config.add_bias_linear = false;
  config.untie_embeddings_and_output_weights = true;
  const WatchedRun run(run_on_gpu(/*micro_batches=*/1, /*eval_iters=*/0, config));
  expect_within_budget("llama_training_step", run.steps.at(2));
}

/// A Llama with grouped queries of this dtype, and samples long enough for a matrix of scores to
/// stand out.
train::TrainerOptions run_of_long_samples(at::ScalarType dtype) {
  model::GptConfig config = gpt_of_24_layers();
  config.num_layers = 2;
  config.num_query_groups = 1;
  config.normalization = "RMSNorm";
  config.position_embedding_type = "rope";
  config.max_position_embeddings = config.seq_length = 512;
  auto options = run_on_gpu(/*micro_batches=*/1, /*eval_iters=*/0, config);
  options.model.params_dtype = dtype;
  return options;
}

/// At least so many calls of a fused kernel of attention, and none of a product of scores: cuBLAS
/// multiplies no batches.
void expect_fused_attention(const pretended::Counts& counts, int64_t calls) {
  int64_t found = 0;
  for (const auto& [name, count] : counts.kernels) {
    if (name.find("fmha") != std::string::npos || name.find("flash") != std::string::npos) {
      found += count;
    }
    EXPECT_EQ(name.find("StridedBatched"), std::string::npos) << name;
  }
  EXPECT_GE(found, calls);
}

/// LibTorch's kernel for fp32 takes no groups: left to itself it computes by a matrix of scores.
TEST_F(PretendedDeviceTest, GroupedQueriesInFp32KeepNoScores) {
  const WatchedRun run(run_of_long_samples(at::kFloat));
  expect_fused_attention(run.steps.at(2), /*calls=*/4);
}

TEST_F(PretendedDeviceTest, HeadsOfOddSizesInFp32KeepNoScores) {
  train::TrainerOptions options = run_of_long_samples(at::kFloat);
  options.config.kv_channels = 42;
  const WatchedRun run(std::move(options));
  expect_fused_attention(run.steps.at(2), /*calls=*/4);
}

TEST_F(PretendedDeviceTest, ResetAttentionMasksTakeNoMemory) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const WatchedRun plain(run_of_long_samples(dtype));
    train::TrainerOptions options = run_of_long_samples(dtype);
    options.batches.sample.reset_attention_mask = true;
    options.model.attention_dropout = 0;
    const WatchedRun run(std::move(options));
    EXPECT_EQ(run.steps.at(2).kernels.count("cudnnBackendExecute"), 0) << "a plan for each length";
    EXPECT_EQ(run.steps.at(2).to_device_bytes, plain.steps.at(2).to_device_bytes);
    expect_fused_attention(run.steps.at(2), /*calls=*/4);
    // Cut into documents and put together again; a mask of 2 samples alone has 524,288 bytes for
    // each layer.
    EXPECT_LT(run.steps.at(2).allocated_bytes, 2 * plain.steps.at(2).allocated_bytes);
  }
}

/// Comparing each token with all others takes time by the square of their number.
TEST_F(PretendedDeviceTest, ManyTokensOfAnEmbeddingAreSorted) {
  const auto kernels = [](int64_t tokens) {
    const at::Tensor weight =
        at::zeros({100, 8}, at::dtype(at::kBFloat16).device(at::kCUDA)).requires_grad_(true);
    const at::Tensor ids = at::zeros({1, tokens}, at::dtype(at::kLong).device(at::kCUDA));
    take_counts();
    nn::embedding_sum(weight, ids, /*positions=*/{}, /*position_ids=*/{}).sum().backward();
    return take_counts().kernels;
  };
  EXPECT_EQ(kernels(2048).count("meg::kernels::merge_kernel"), 0);
  EXPECT_EQ(kernels(2049)["meg::kernels::merge_kernel"], 1);
  EXPECT_EQ(kernels(300'000)["meg::kernels::merge_kernel"], 3);
}

TEST_F(PretendedDeviceTest, TrainingStepOfFourMicroBatches) {
  const WatchedRun run(run_on_gpu(/*micro_batches=*/4));
  expect_within_budget("four_micro_batches", run.steps.at(2));
}

TEST_F(PretendedDeviceTest, Evaluation) {
  const WatchedRun run(run_on_gpu(/*micro_batches=*/1, /*eval_iters=*/1));
  expect_within_budget("evaluation", run.evaluations.at(0));
}

TEST_F(PretendedDeviceTest, Save) {
  const test::TempFolder folder;
  auto options = run_on_gpu(/*micro_batches=*/1);
  options.checkpoints.save = folder.path("save");
  expect_within_budget("save", WatchedRun(options).end);
}

TEST_F(PretendedDeviceTest, Scoring) {
  auto model = nn::GptModel::create(gpt_of_24_layers(), on_gpu());
  ASSERT_TRUE(model.has_value()) << model.status().message();
  model->set_training(false);
  const std::vector<int32_t> tokens(30, 7);
  const std::vector<evaluation::ScoringSequence> sequences(4, {.tokens = tokens, .targets = 2});
  evaluation::ScoringOptions options;
  options.vocab_size = 100;
  const auto score = [&] {
    take_counts();
    const auto scores = evaluation::score_sequences(*model, sequences, options);
    ASSERT_TRUE(scores.has_value()) << scores.status().message();
  };
  score();  // cuBLAS's workspace is made once
  score();
  expect_within_budget("scoring", take_counts());
}

/// Adds prompts of 8 tokens that 8 more are to follow.
void add_prompts(serving::GenerationEngine& engine, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    serving::GenerationRequest request;
    request.prompt.assign(8, i);
    request.tokens_to_generate = 8;
    request.sampling.top_k = 1;
    request.stop.on_eod = false;
    const auto added = engine.add(std::move(request));
    ASSERT_TRUE(added.has_value()) << added.status().message();
  }
}

/// What one step of an engine asks for.
pretended::Counts step_of(serving::GenerationEngine& engine) {
  take_counts();
  const auto events = engine.step();
  EXPECT_TRUE(events.has_value()) << events.status().message();
  return take_counts();
}

/// Calls `body` with an engine for up to 17 texts of a model of 24 layers.
void with_engine(const std::function<void(serving::GenerationEngine&)>& body,
                 const model::GptConfig& config = gpt_of_24_layers(),
                 const nn::GptOptions& options = on_gpu()) {
  auto model = nn::GptModel::create(config, options);
  ASSERT_TRUE(model.has_value()) << model.status().message();
  model->set_training(false);
  const auto tokenizer = test::LetterTokenizer::numbers(100);
  const auto engine = generation::create_generation_engine(*model, tokenizer, {.max_slots = 17});
  ASSERT_TRUE(engine.has_value()) << engine.status().message();
  body(**engine);
}

TEST_F(PretendedDeviceTest, Generation) {
  with_engine([](serving::GenerationEngine& engine) {
    add_prompts(engine, 1);
    step_of(engine);  // what is made once, as cuBLAS's workspace
    engine.cancel(0);
    add_prompts(engine, 16);
    expect_within_budget("prefill_step", step_of(engine));
    step_of(engine);
    expect_within_budget("decode_step", step_of(engine));
  });
}

/// The steps of an engine that decodes `count` texts, after the one that takes in their prompts.
std::vector<int64_t> operations_of_steps(serving::GenerationEngine& engine, int32_t count,
                                         int steps) {
  add_prompts(engine, count);
  step_of(engine);
  std::vector<int64_t> operations;
  for (int i = 0; i < steps; ++i) operations.push_back(step_of(engine).operations());
  return operations;
}

TEST_F(PretendedDeviceTest, PromptsOfGroupedQueriesInFp32KeepNoScores) {
  model::GptConfig config = gpt_of_24_layers();
  config.num_query_groups = 1;
  nn::GptOptions options = on_gpu();
  options.params_dtype = at::kFloat;
  with_engine(
      [](serving::GenerationEngine& engine) {
        add_prompts(engine, 1);
        expect_fused_attention(step_of(engine), gpt_of_24_layers().num_layers);
      },
      config, options);
}

TEST(PretendedDeviceGraphsTest, LaterStepsOfDecodingAreOneLaunch) {
  if (!test::load_cuda_library(/*counts_memory=*/false)) {
    GTEST_SKIP() << "this LibTorch is for CPUs only";
  }
  with_engine([](serving::GenerationEngine& engine) {
    const std::vector<int64_t> found = operations_of_steps(engine, 16, 4);
    EXPECT_GT(found[0], 150);  // as it is
    EXPECT_GT(found[1], 150);  // as it is, and recorded
    EXPECT_LE(found[2], 20);
    EXPECT_EQ(found[3], found[2]);
    // Each other number of texts has its own recording.
    for (int64_t request = 0; request < 16; ++request) engine.cancel(request);
    const std::vector<int64_t> others = operations_of_steps(engine, 3, 3);
    EXPECT_GT(others[0], 150);
    EXPECT_EQ(others[2], found[2]);
  });
}

TEST(PretendedDeviceGraphsTest, WhatCannotBeRecordedIsRunAsItIs) {
  if (!test::load_cuda_library(/*counts_memory=*/false)) {
    GTEST_SKIP() << "this LibTorch is for CPUs only";
  }
  const at::Tensor tokens = at::zeros({2}, at::dtype(at::kLong).device(at::kCUDA));
  const at::Tensor numbers = at::zeros({3, 2}, at::kLong);
  nn::DecodeGraphs graphs(tokens.device());
  int calls = 0;
  const auto pass = [&](const at::Tensor& given, const at::Tensor&, int64_t) {
    // It runs as it is, then once before it is recorded.
    if (++calls == 3) throw std::runtime_error("it waits for the GPU");
    return given.clone();
  };
  for (const int expected : {1, 4, 5}) {
    EXPECT_TRUE(graphs.run(/*model=*/7, tokens, numbers, /*longest=*/9, {}, pass).defined());
    EXPECT_EQ(calls, expected);
  }
}

}  // namespace
}  // namespace meg
