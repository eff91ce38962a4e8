// What the ranks of a run find together where one of them has what the others have not.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "libmeg/model/rank_memory.h"
#include "libmeg/parallel/parallel_state.h"
#include "tests/launch_ranks.h"
#include "tests/train/small_run.h"

namespace meg::train {
namespace {

using ::testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

parallel::ParallelState connected(parallel::Mesh::Sizes sizes) {
  const auto environment = parallel::read_launch_environment();
  EXPECT_TRUE(environment.has_value()) << environment.status().message();
  auto state = parallel::ParallelState::connect(
      *environment, sizes, parallel::RankOrder::kDataBeforePipeline, std::chrono::minutes(1));
  EXPECT_TRUE(state.has_value()) << state.status().message();
  return state.has_value() ? *std::move(state) : parallel::ParallelState();
}

TrainerOptions run_of(const parallel::ParallelState& ranks) {
  auto options = test::small_run({}, test::two_layers(), /*micro_batches=*/2, ranks.data()->size());
  options.batches.data_parallel_rank = ranks.data()->rank();
  options.batches.data_parallel_size = ranks.data()->size();
  return options;
}

/// The last weight of the ranks' parts: of the output on the last stage.
at::Tensor a_weight(Trainer& trainer) { return trainer.model().parameters().back().tensor; }

/// A gradient is NaN on rank 1 in every step, while losses stay as they are.
void poison_gradient_of_rank_1(Trainer& trainer, const parallel::ParallelState& ranks) {
  if (ranks.world().rank() != 1) return;
  a_weight(trainer).register_hook([](const at::Tensor& gradient) {
    at::Tensor poisoned = gradient.clone();
    poisoned.view(-1)[0] = kNan;
    return poisoned;
  });
}

/// The error of a run, which all ranks have.
std::string common_error(test::SmallTrainer& run, const parallel::ParallelState& ranks) {
  const Status status = run.run();
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange) << status.message();
  const auto first = ranks.of_first_rank(std::string(status.message()));
  EXPECT_TRUE(first.has_value());
  EXPECT_EQ(*first, status.message());
  return std::string(status.message());
}

TEST(TrainerRanksTest, NanInTheLossOfOneDataParallelRankEndsAll) {
  if (test::launched_ranks(2)) return;
  const auto ranks = connected({1, 1, 1, 0, 1});
  test::SmallTrainer run(run_of(ranks), {}, ranks);
  ASSERT_NE(run.trainer, nullptr) << run.status.message();
  if (ranks.world().rank() == 1) a_weight(*run.trainer).detach().fill_(kNan);
  EXPECT_THAT(common_error(run, ranks), StartsWith("iteration 1: loss of data-parallel rank 1: "
                                                   "expected finite numbers, found NaN"));
}

TEST(TrainerRanksTest, NanInTheGradientOfOneRankEndsAll) {
  if (test::launched_ranks(2)) return;
  int runs = 0;
  for (const auto& [sizes, shape] : {std::pair(parallel::Mesh::Sizes{1, 1, 1, 0, 1}, "data"),
                                     std::pair(parallel::Mesh::Sizes{2, 1, 1, 0, 1}, "tensor"),
                                     std::pair(parallel::Mesh::Sizes{1, 1, 1, 0, 2}, "pipeline")}) {
    ::setenv("TORCHELASTIC_RESTART_COUNT", std::to_string(runs++).c_str(), /*overwrite=*/1);
    const auto ranks = connected(sizes);
    test::SmallTrainer run(run_of(ranks), {}, ranks);
    ASSERT_NE(run.trainer, nullptr) << run.status.message();
    poison_gradient_of_rank_1(*run.trainer, ranks);
    EXPECT_THAT(
        common_error(run, ranks),
        ::testing::MatchesRegex(
            "iteration 1: rank [01]: gradient of .*: expected finite numbers, found NaN .*"))
        << shape;
    EXPECT_TRUE(a_weight(*run.trainer).isfinite().all().item<bool>()) << shape;
  }
}

TEST(TrainerRanksTest, NanInTheGradientOfOneRankSkipsTheStepsOfAll) {
  if (test::launched_ranks(2)) return;
  const auto ranks = connected({1, 1, 1, 0, 2});
  auto options = run_of(ranks);
  options.model.params_dtype = at::kHalf;
  options.loss_scaler.initial_scale = 64;
  options.loss_scaler.hysteresis = 1;
  test::SmallTrainer run(std::move(options), {}, ranks);
  ASSERT_NE(run.trainer, nullptr) << run.status.message();
  poison_gradient_of_rank_1(*run.trainer, ranks);
  std::vector<double> scales;
  run.trainer->watch(
      [&](const StepReport& step) {
        EXPECT_TRUE(step.outcome.skipped);
        scales.push_back(step.loss_scale);
      },
      {});
  const Status status = run.run();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(scales, (std::vector<double>{64, 32, 16, 8, 4, 2}));
}

/// What this rank's optimizer keeps after a step of gradients is what model::rank_memory() says.
void expect_foretold_memory(parallel::Mesh::Sizes sizes, at::ScalarType type,
                            const Optimizer::Options& given) {
  const auto ranks = connected(sizes);
  model::GptConfig config = test::two_layers();
  config.hidden_size = 20;  // no multiple of what arrays are aligned to
  config.kv_channels = 5;
  model::TheoreticalMemoryOptions run;
  run.sizes.tensor_model_parallel_size = ranks.tensor()->size();
  run.sizes.pipeline_model_parallel_size = ranks.pipeline()->size();
  run.data_parallel_size = ranks.data()->size();
  run.use_distributed_optimizer = given.use_distributed_optimizer;
  const auto theory = model::theoretical_memory(config, run);
  ASSERT_TRUE(theory.has_value()) << theory.status().message();
  const bool is_bf16 = type == at::kBFloat16;
  const auto stages =
      model::rank_memory(config, run,
                         {.sixteen_bit = type != at::kFloat,
                          .widens_gradients = given.accumulate_allreduce_grads_in_fp32 ||
                                              (is_bf16 && !given.grad_reduce_in_bf16)},
                         *theory);
  ASSERT_TRUE(stages.has_value()) << stages.status().message();
  nn::GptOptions options;
  options.params_dtype = type;
  nn::GptModel part = test::small_model(config, options,
                                        {.sizes = run.sizes,
                                         .tensor_rank = ranks.tensor()->rank(),
                                         .pipeline_rank = ranks.pipeline()->rank(),
                                         .tensor_parallel = {.group = ranks.tensor()}});
  const auto optimizer = Optimizer::create(part, nullptr, given, ranks);
  ASSERT_TRUE(optimizer.has_value()) << optimizer.status().message();
  ASSERT_TRUE((*optimizer)->zero_grad({}).ok());
  const Optimizer::Held held = (*optimizer)->held_bytes();
  const model::RankMemory& found = stages->at(static_cast<size_t>(ranks.pipeline()->rank()));
  EXPECT_EQ(static_cast<double>(held.parameters), found.parameter_bytes);
  EXPECT_EQ(static_cast<double>(held.gradients), found.gradient_bytes);
  EXPECT_EQ(static_cast<double>(held.state), found.optimizer_bytes);
}

TEST(TrainerRanksTest, RanksKeepAsMuchMemoryAsForetold) {
  if (test::launched_ranks(2)) return;
  int runs = 0;
  for (const parallel::Mesh::Sizes& sizes :
       {parallel::Mesh::Sizes{1, 1, 1, 0, 1}, {2, 1, 1, 0, 1}, {1, 1, 1, 0, 2}}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const bool shares : {false, true}) {
        ::setenv("TORCHELASTIC_RESTART_COUNT", std::to_string(runs++).c_str(), /*overwrite=*/1);
        expect_foretold_memory(
            sizes, type, {.grad_reduce_in_bf16 = shares, .use_distributed_optimizer = shares});
      }
    }
  }
}

}  // namespace
}  // namespace meg::train
