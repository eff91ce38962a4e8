// Several ranks on GPUs that compute nothing: NCCL's collectives are real there, models' numbers
// are not.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <future>
#include <thread>

#include "libmeg/evaluation/scoring.h"
#include "libmeg/generation/model_engine.h"
#include "libmeg/libtorch/device.h"
#include "libmeg/parallel/parallel_state.h"
#include "tests/generation/letter_tokenizer.h"
#include "tests/launch_ranks.h"
#include "tests/pretended_device/budget.h"
#include "tests/pretended_device/cuda_library.h"
#include "tests/train/small_run.h"

namespace meg::parallel {
namespace {

using ::testing::HasSubstr;

constexpr auto kTimeout = std::chrono::minutes(1);

void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

/// Why the watch would end this process.
struct Lost {
  Status why;
  bool says_why;
};

Result<ParallelState> connect(Mesh::Sizes sizes, std::promise<Lost>* lost = nullptr,
                              std::chrono::milliseconds timeout = kTimeout) {
  MEG_ASSIGN_OR_RETURN(const LaunchEnvironment environment, read_launch_environment());
  MEG_ASSIGN_OR_RETURN(const at::Device device,
                       libtorch::device_of("cuda", environment.local_rank));
  const auto on_lost = [lost](const Status& why, bool says_why) {
    if (lost == nullptr) std::abort();
    lost->set_value({why, says_why});
  };
  return ParallelState::connect(environment, sizes, RankOrder::kDataBeforePipeline, timeout,
                                {.device = device, .on_lost = on_lost});
}

ParallelState connected(Mesh::Sizes sizes) {
  auto state = connect(sizes);
  EXPECT_TRUE(state.has_value()) << state.status().message();
  return state.has_value() ? *std::move(state) : ParallelState();
}

class NcclRanksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::load_cuda_library()) GTEST_SKIP() << "this LibTorch is for CPUs only";
  }

  /// Works like test::launched_ranks(), with so many devices, and their messages in the folder of
  /// the test.
  bool launched_ranks(int ranks, int devices) {
    ::setenv("MEG_PRETENDED_DEVICES", std::to_string(devices).c_str(), /*overwrite=*/1);
    ::setenv("MEG_PRETENDED_NCCL", folder_.path("").c_str(), /*overwrite=*/1);
    return test::launched_ranks(ranks);
  }

  bool launched_ranks(int ranks) { return launched_ranks(ranks, ranks); }

 private:
  test::CommonFolder folder_;
};

TEST_F(NcclRanksTest, CollectivesOfGpusTensors) {
  if (launched_ranks(2)) return;
  const ParallelState state = connected({1, 1, 1, 0, 1});
  ProcessGroup& group = *state.data();
  const int rank = group.rank();
  EXPECT_EQ(state.device(), at::Device(at::kCUDA, static_cast<at::DeviceIndex>(rank)));
  const auto there = [&](const at::Tensor& host) { return host.to(state.device()); };
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong}) {
    const at::Tensor base = at::arange(1000, at::kLong).remainder(100).to(type);
    const at::Tensor mine = base * (rank + 1);
    const at::Tensor sum = there(mine);
    expect_ok(group.all_reduce(sum));
    EXPECT_TRUE(at::equal(sum.cpu(), base * 3)) << type;
    const at::Tensor largest = there(mine);
    expect_ok(group.all_reduce(largest, Reduction::kMax));
    EXPECT_TRUE(at::equal(largest.cpu(), base * 2)) << type;
    const at::Tensor whole = there(at::zeros({2, 1000}, type));
    expect_ok(group.all_gather(whole, there(mine)));
    EXPECT_TRUE(at::equal(whole.cpu(), at::stack({base, base * 2}))) << type;
    const at::Tensor scattered = there(at::stack({mine, mine * 2}));
    expect_ok(group.reduce_scatter(scattered[rank], scattered));
    EXPECT_TRUE(at::equal(scattered.cpu()[rank], base * 3 * (rank + 1))) << type;
    const at::Tensor told = there(mine);
    expect_ok(group.broadcast(told, 1));
    EXPECT_TRUE(at::equal(told.cpu(), base * 2)) << type;
    const at::Tensor passed = there(mine);
    expect_ok(rank == 0 ? group.send(passed, 1) : group.receive(passed, 0));
    EXPECT_TRUE(at::equal(passed.cpu(), base)) << type;
  }
  // What the host has goes over Gloo in the same group.
  const at::Tensor numbers = at::full({1}, rank, at::kDouble);
  expect_ok(group.all_reduce(numbers));
  EXPECT_EQ(numbers.item<double>(), 1);
  expect_ok(state.end());
}

TEST_F(NcclRanksTest, TwoRanksThatSendToEachOtherDoNotWait) {
  if (launched_ranks(2)) return;
  const ParallelState state = connected({1, 1, 1, 1, 2});
  ProcessGroup& group = *state.pipeline();
  const int other = 1 - group.rank();
  // Send as between stages: the first message of each direction meets a rank that waits for it.
  const auto send = [&](int i) {
    return group.start_send(at::full({100}, i, at::kFloat).to(state.device()), other);
  };
  const auto receive = [&](int i) {
    const at::Tensor received = at::empty({100}, at::dtype(at::kFloat).device(state.device()));
    expect_ok(group.receive(received, other));
    EXPECT_TRUE(at::equal(received.cpu(), at::full({100}, i, at::kFloat))) << i;
  };
  std::vector<PendingWork> sent;
  if (group.rank() == 1) receive(0);
  sent.push_back(send(0));
  if (group.rank() == 0) receive(0);
  for (int i = 1; i < 8; ++i) sent.push_back(send(i));
  for (int i = 1; i < 8; ++i) receive(i);
  for (const PendingWork& work : sent) expect_ok(work->wait());
  expect_ok(state.end());
}

/// Three steps of eight micro-batches in two pipelines of two stages: no rank waits for a message
/// behind one of its own that nobody receives until then. Megatron asks for the variable, so that
/// scripts for it set it.
TEST_F(NcclRanksTest, OneQueueForAllStreamsHoldsNoStageUp) {
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", /*overwrite=*/1);
  if (launched_ranks(4)) return;
  const ParallelState state = connected({1, 1, 1, 0, 2});
  model::GptConfig config = test::small_config();
  config.num_layers = 4;
  auto options = test::small_run({.train_iters = 3, .eval_iters = 1, .eval_interval = 2}, config,
                                 /*micro_batches=*/8, state.data()->size());
  options.model.device = state.device();
  options.model.params_dtype = at::kBFloat16;
  options.optimizer = {.use_distributed_optimizer = true,
                       .overlap_grad_reduce = true,
                       .overlap_param_gather = true,
                       .ddp_bucket_size = 4000};
  options.batches.data_parallel_rank = state.data()->rank();
  options.batches.data_parallel_size = state.data()->size();
  test::SmallTrainer run(std::move(options), {}, state);
  ASSERT_NE(run.trainer, nullptr) << run.status.message();
  expect_ok(run.run());
  expect_ok(state.end());
}

TEST_F(NcclRanksTest, OneQueueIsRefusedWhereStagesWouldWaitInACircle) {
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", /*overwrite=*/1);
  if (launched_ranks(2)) return;
  const ParallelState state = connected({1, 1, 1, 0, 2});
  model::GptConfig config = test::small_config();
  config.num_layers = 4;
  auto options = test::small_run({.train_iters = 1, .eval_iters = 1, .eval_interval = 2}, config,
                                 /*micro_batches=*/8, state.data()->size());
  options.model.device = state.device();
  options.virtual_pipeline_model_parallel_size = 2;
  options.microbatch_group_size_per_vp_stage = 4;
  const test::SmallTrainer run(std::move(options), {}, state);
  EXPECT_EQ(run.trainer, nullptr);
  EXPECT_EQ(run.status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(run.status.message(), HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS=1, found 4"));
  expect_ok(state.end());
}

TEST_F(NcclRanksTest, RankWithoutAGpuOfItsOwnIsRefused) {
  if (launched_ranks(2, /*devices=*/1)) return;
  const auto state = connect({1, 1, 1, 0, 1});
  ASSERT_FALSE(state.has_value());
  EXPECT_EQ(state.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(state.error().message(), HasSubstr("expected a GPU for each rank, found cuda:0"));
}

TEST_F(NcclRanksTest, MoreRanksThanGpusAreRefused) {
  if (launched_ranks(3, /*devices=*/2)) return;
  if (std::atoi(std::getenv("LOCAL_RANK")) < 2) return;
  const auto device = libtorch::device_of("cuda", 2);
  ASSERT_FALSE(device.has_value());
  EXPECT_EQ(device.error().message(),
            "device: expected at most 2 ranks on this machine, one for each of its GPUs, found "
            "local rank 2");
}

TEST_F(NcclRanksTest, RankThatIsGoneEndsOneThatWaitsForItsGpu) {
  if (launched_ranks(2)) return;
  std::promise<Lost> lost;
  const auto state = connect({1, 1, 1, 0, 1}, &lost);
  ASSERT_TRUE(state.has_value()) << state.status().message();
  if (state->world().rank() == 1) std::_Exit(0);
  const Lost found = lost.get_future().get();
  EXPECT_EQ(found.why.message(), "rank 1 is gone");
  EXPECT_TRUE(found.says_why);
  EXPECT_TRUE(state->claim_failure()) << "this rank still says why";
}

TEST_F(NcclRanksTest, FailureThatARankClaimsEndsTheOthers) {
  if (launched_ranks(2)) return;
  std::promise<Lost> lost;
  const auto state = connect({1, 1, 1, 0, 1}, &lost);
  ASSERT_TRUE(state.has_value()) << state.status().message();
  if (state->world().rank() == 1) {
    EXPECT_TRUE(state->claim_failure());
    std::_Exit(lost.get_future().get().says_why ? 0 : 1);
  }
  const Lost found = lost.get_future().get();
  EXPECT_FALSE(found.says_why);
  std::_Exit(HasFailure() ? 1 : 0);
}

TEST_F(NcclRanksTest, RankThatDoesNotComeIsNamedAfterTheTimeout) {
  if (launched_ranks(2)) return;
  std::promise<Lost> lost;
  const auto state = connect({1, 1, 1, 0, 1}, &lost, std::chrono::seconds(3));
  ASSERT_TRUE(state.has_value()) << state.status().message();
  if (state->world().rank() == 1) {
    // It is there and does nothing, till the other has claimed the failure.
    EXPECT_FALSE(lost.get_future().get().says_why);
    std::_Exit(HasFailure() ? 1 : 0);
  }
  const auto begin = [&] {
    (void)state->data()->all_reduce(at::ones({10}, at::device(state->device())));
  };
  std::thread(begin).detach();
  const Lost found = lost.get_future().get();
  EXPECT_EQ(found.why.message(),
            "all-reduce of the data group: timed out after 3 s: no answer from rank 1");
  EXPECT_TRUE(found.says_why);
  std::_Exit(HasFailure() ? 1 : 0);
}

/// What the third of four steps of two micro-batches asks of each rank's GPU, on the first one.
void expect_step_within_budget(const std::string& scenario, Mesh::Sizes sizes,
                               const train::Optimizer::Options& optimizer = {}) {
  const ParallelState state = connected(sizes);
  model::GptConfig config = test::small_config();
  config.num_layers = 4;
  auto options = test::small_run({.train_iters = 4, .eval_iters = 1, .eval_interval = 4}, config,
                                 /*micro_batches=*/2, state.data()->size());
  options.model.device = state.device();
  options.model.params_dtype = at::kBFloat16;
  options.optimizer = optimizer;
  options.batches.data_parallel_rank = state.data()->rank();
  options.batches.data_parallel_size = state.data()->size();
  test::SmallTrainer run(std::move(options), {}, state);
  ASSERT_NE(run.trainer, nullptr) << run.status.message();
  std::vector<pretended::Counts> steps;
  run.trainer->watch([&](const auto&) { steps.push_back(pretended::take_counts()); }, {});
  expect_ok(run.run());
  if (state.world().rank() == 0) test::expect_within_budget(scenario, steps.at(2));
  expect_ok(state.end());
}

TEST_F(NcclRanksTest, TensorParallelStep) {
  if (launched_ranks(2)) return;
  expect_step_within_budget("tensor_parallel", {2, 1, 1, 0, 1});
}

TEST_F(NcclRanksTest, PipelineParallelStep) {
  if (launched_ranks(2)) return;
  expect_step_within_budget("pipeline_parallel", {1, 1, 1, 0, 2});
}

TEST_F(NcclRanksTest, DataParallelStep) {
  if (launched_ranks(2)) return;
  expect_step_within_budget("data_parallel", {1, 1, 1, 0, 1});
}

TEST_F(NcclRanksTest, DistributedOptimizerStep) {
  if (launched_ranks(2)) return;
  expect_step_within_budget("sharded_optimizer", {1, 1, 1, 0, 1},
                            {.use_distributed_optimizer = true});
}

/// The host waits for the GPU as often as without overlap.
TEST_F(NcclRanksTest, OverlappedOptimizerStep) {
  if (launched_ranks(2)) return;
  expect_step_within_budget("overlapped_gathers", {1, 1, 1, 0, 1},
                            {.use_distributed_optimizer = true,
                             .overlap_grad_reduce = true,
                             .overlap_param_gather = true,
                             .ddp_bucket_size = 4000});
}

/// One engine of the first rank makes two tokens, then it scores a sequence; kernels compute
/// nothing, so that only what the ranks exchange is looked at.
void expect_inference(Mesh::Sizes sizes) {
  const ParallelState state = connected(sizes);
  nn::GptOptions options;
  options.device = state.device();
  options.params_dtype = at::kBFloat16;
  nn::ModelPart part;
  part.sizes.tensor_model_parallel_size = state.tensor()->size();
  part.sizes.pipeline_model_parallel_size = state.pipeline()->size();
  part.tensor_rank = state.tensor()->rank();
  part.pipeline_rank = state.pipeline()->rank();
  part.tensor_parallel.group = state.tensor();
  model::GptConfig config = test::small_config();
  config.num_layers = 4;
  auto model = nn::GptModel::create(config, options, part);
  ASSERT_TRUE(model.has_value()) << model.status().message();
  model->set_training(false);
  if (state.world().rank() == 1) {
    expect_ok(generation::follow_generation_engine(*model, state));
    expect_ok(evaluation::follow_scoring(*model, state));
    return expect_ok(state.end());
  }
  {
    const auto tokenizer = test::LetterTokenizer::numbers(20);
    const auto engine = generation::create_generation_engine(*model, tokenizer, {}, state);
    ASSERT_TRUE(engine.has_value()) << engine.status().message();
    serving::GenerationRequest request;
    request.prompt.assign(4, 1);
    request.tokens_to_generate = 2;
    request.sampling.top_k = 1;
    request.stop.on_eod = false;
    ASSERT_TRUE((*engine)->add(std::move(request)).has_value());
    pretended::take_counts();
    for (int step = 0; step < 2; ++step) expect_ok((*engine)->step().status());
    EXPECT_GT(pretended::take_counts().nccl_calls(), 0);
  }
  const std::vector<int32_t> tokens(8, 7);
  const std::vector<evaluation::ScoringSequence> sequences = {{.tokens = tokens, .targets = 2}};
  evaluation::ScoringOptions scoring;
  scoring.vocab_size = 20;
  expect_ok(evaluation::score_sequences(*model, sequences, scoring, state).status());
  EXPECT_GT(pretended::take_counts().nccl_calls(), 0);
  expect_ok(state.end());
}

TEST_F(NcclRanksTest, TensorParallelInference) {
  if (launched_ranks(2)) return;
  expect_inference({2, 1, 1, 0, 1});
}

TEST_F(NcclRanksTest, PipelineParallelInference) {
  if (launched_ranks(2)) return;
  expect_inference({1, 1, 1, 0, 2});
}

}  // namespace
}  // namespace meg::parallel
