// What a run does where something goes wrong, on a model that computes in an instant.

#include "libmeg/train/trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "tests/checkpoint/transfer/transfer_files.h"
#include "tests/temp_folder.h"
#include "tests/train/small_run.h"

namespace meg::train {
namespace {

using test::small_run;
using test::SmallTrainer;
using test::TempFolder;

constexpr char kPoisoned[] = "decoder.layers.1.mlp.linear_fc2.weight";

at::Tensor parameter(Trainer& trainer, const std::string& name) {
  for (const nn::GptParameter& parameter : trainer.model().parameters()) {
    if (parameter.name == name) return parameter.tensor;
  }
  ADD_FAILURE() << name;
  return {};
}

/// From now on the parameter's gradient has one such number in it, while losses stay as they are.
void poison_gradient(Trainer& trainer, float value) {
  at::Tensor weight = parameter(trainer, kPoisoned);
  weight.register_hook([value](const at::Tensor& gradient) {
    at::Tensor poisoned = gradient.clone();
    poisoned.view(-1)[5] = value;
    return poisoned;
  });
}

TEST(Trainer, StopsAtNonFiniteGradientsBeforeTheyAreApplied) {
  for (const auto& [value, text] : {std::pair{std::numeric_limits<float>::quiet_NaN(), "NaN"},
                                    {std::numeric_limits<float>::infinity(), "Inf"}}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const TempFolder folder;
      auto options = small_run();
      options.model.params_dtype = dtype;
      options.checkpoints.save = folder.path("save");
      options.checkpoints.save_interval = 3;
      SmallTrainer run(options);
      ASSERT_NE(run.trainer, nullptr) << run.status.message();
      run.trainer->watch(
          [&](const StepReport& step) {
            if (step.iteration == 3) poison_gradient(*run.trainer, value);
          },
          {});
      const Status status = run.run();
      EXPECT_EQ(status.message(), std::string("iteration 4: gradient of ") + kPoisoned +
                                      ": expected finite numbers, found " + text +
                                      " (`check_for_nan_in_loss_and_grad = false` continues)");
      EXPECT_TRUE(parameter(*run.trainer, kPoisoned).isfinite().all().item<bool>());
      EXPECT_EQ(test::read_file(folder.path("save/latest_checkpointed_iteration.txt")), "3");
    }
  }
}

TEST(Trainer, ContinuesWithNonFiniteGradientsOnlyOnRequest) {
  auto options = small_run();
  options.optimizer.check_for_nan_in_loss_and_grad = false;
  SmallTrainer run(options);
  ASSERT_NE(run.trainer, nullptr) << run.status.message();
  poison_gradient(*run.trainer, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(run.run().ok());
  EXPECT_FALSE(parameter(*run.trainer, kPoisoned).isfinite().all().item<bool>());
}

TEST(Trainer, SkipsStepsOfNonFiniteGradientsWithADynamicLossScale) {
  auto options = small_run();
  options.model.params_dtype = at::kHalf;
  options.loss_scaler.initial_scale = 64;
  options.loss_scaler.hysteresis = 1;
  SmallTrainer run(options);
  ASSERT_NE(run.trainer, nullptr) << run.status.message();
  poison_gradient(*run.trainer, std::numeric_limits<float>::quiet_NaN());
  const at::Tensor before = parameter(*run.trainer, kPoisoned).detach().clone();
  std::vector<double> scales;
  run.trainer->watch(
      [&](const StepReport& step) {
        EXPECT_TRUE(step.outcome.skipped);
        scales.push_back(step.loss_scale);
      },
      {});
  EXPECT_TRUE(run.run().ok());
  EXPECT_EQ(scales, (std::vector<double>{64, 32, 16, 8, 4, 2}));
  EXPECT_TRUE(at::equal(parameter(*run.trainer, kPoisoned), before));
}

TEST(Trainer, DiesOfNonFiniteGradientsWithAConstantLossScale) {
  auto options = small_run();
  options.model.params_dtype = at::kHalf;
  options.loss_scale = 64;
  SmallTrainer run(options);
  ASSERT_NE(run.trainer, nullptr) << run.status.message();
  poison_gradient(*run.trainer, std::numeric_limits<float>::infinity());
  EXPECT_EQ(run.run().message().find("iteration 1: gradient of "), 0U);
}

TEST(Trainer, DiesOfAnInfiniteLoss) {
  for (const bool check : {true, false}) {
    auto options = small_run();
    options.optimizer.check_for_nan_in_loss_and_grad = check;
    SmallTrainer run(options);
    ASSERT_NE(run.trainer, nullptr) << run.status.message();
    // Logits of both signs beyond fp32.
    parameter(*run.trainer, "decoder.final_layernorm.weight").detach().fill_(3e38F);
    const Status status = run.run();
    EXPECT_EQ(status.ok(), !check);
    if (check) {
      EXPECT_EQ(status.message().find("iteration 1: loss: expected finite"), 0U);
    }
  }
}

TEST(Trainer, StopsAtANonFiniteLossOfAnEvaluation) {
  for (const bool check : {true, false}) {
    auto options = small_run();
    options.optimizer.check_for_nan_in_loss_and_grad = check;
    SmallTrainer run(options);
    ASSERT_NE(run.trainer, nullptr) << run.status.message();
    run.trainer->watch(
        [&](const StepReport& step) {
          if (step.iteration != 2) return;  // after which the first evaluation comes
          parameter(*run.trainer, "decoder.final_layernorm.weight").detach().fill_(std::nanf(""));
        },
        {});
    const Status status = run.run();
    EXPECT_EQ(status.ok(), !check);
    EXPECT_EQ(run.count("validation loss at iteration 2 | lm loss value: NAN |"), check ? 0 : 1);
    if (check) {
      EXPECT_EQ(status.message().find("evaluation: loss: expected finite numbers, found NaN"), 0U)
          << status.message();
    }
  }
}

using Evaluations = std::vector<std::pair<int64_t, double>>;

/// Iteration and loss of every evaluation while the run trains.
Evaluations evaluations_of(SmallTrainer& run) {
  Evaluations found;
  run.trainer->watch({}, [&](const EvaluationReport& report) {
    found.emplace_back(report.iteration, report.lm_loss);
  });
  const Status status = run.run();
  EXPECT_TRUE(status.ok()) << status.message();
  return found;
}

TEST(Trainer, ASignalEndsAnEvaluationAndSaves) {
  constexpr int64_t kStepsOfEvaluations = 3;
  const TempFolder folder;
  auto options =
      small_run({.train_iters = 6, .eval_iters = kStepsOfEvaluations, .eval_interval = 2});
  SmallTrainer straight(options);
  const Evaluations expected = evaluations_of(straight);

  options.checkpoints.save = folder.path("save");
  // It is looked at after every training step and before every step of an evaluation.
  int looked = 0;
  SmallTrainer stopped(options, [&looked] { return ++looked >= 4 ? SIGTERM : 0; });
  EXPECT_TRUE(evaluations_of(stopped).empty());
  EXPECT_EQ(stopped.count("validation loss"), 0);
  EXPECT_EQ(stopped.count("Exiting during evaluation"), 1);
  EXPECT_EQ(test::read_file(folder.path("save/latest_checkpointed_iteration.txt")), "2");

  options.checkpoints.load = options.checkpoints.save;
  SmallTrainer resumed(options);
  EXPECT_EQ(evaluations_of(resumed), Evaluations(expected.begin() + 1, expected.end()));
}

TEST(Trainer, EvaluatesOnWhereNoEvaluationWasCounted) {
  const TempFolder folder;
  auto options = small_run();
  SmallTrainer straight(options);
  const Evaluations expected = evaluations_of(straight);
  auto quiet = options;
  quiet.length.eval_iters = 0;
  quiet.checkpoints.save = folder.path("save");
  quiet.exit_interval = 4;
  SmallTrainer first(quiet);
  EXPECT_TRUE(evaluations_of(first).empty());

  // Evaluations would have been at iterations 2 and 4.
  options.checkpoints.load = quiet.checkpoints.save;
  SmallTrainer resumed(options);
  EXPECT_EQ(evaluations_of(resumed), Evaluations(expected.begin() + 2, expected.end()));
}

TEST(Trainer, SaysWhyItEnds) {
  auto options = small_run();
  options.exit_interval = 4;
  SmallTrainer interval(options);
  EXPECT_TRUE(interval.run().ok());
  EXPECT_EQ(interval.count("[exiting program at iteration 4] datetime: "), 1);

  options.exit_duration_in_mins = 0;
  SmallTrainer unlimited(options);
  EXPECT_TRUE(unlimited.run().ok());
  EXPECT_EQ(unlimited.trainer->iteration(), 4);

  options.exit_duration_in_mins = 1e-6;
  SmallTrainer duration(options);
  EXPECT_TRUE(duration.run().ok());
  EXPECT_EQ(duration.count(" minutes] datetime: "), 1);
  EXPECT_EQ(duration.trainer->iteration(), 1);

  SmallTrainer signal(options, [] { return SIGINT; });
  EXPECT_TRUE(signal.run().ok());
  EXPECT_EQ(signal.count("[exiting program after receiving SIGINT.] datetime: "), 1);
}

TEST(Trainer, NoticesAnImpossibleFolderToSaveInBeforeItTrains) {
  const TempFolder folder;
  test::write_file(folder.path("file"), "");
  for (const std::string save : {"file", "file/save"}) {
    auto options = small_run();
    options.checkpoints.save = folder.path(save);
    const SmallTrainer run(options);
    EXPECT_EQ(run.trainer, nullptr);
    EXPECT_EQ(run.status.message().find("`save`: "), 0U) << run.status.message();
    EXPECT_NE(run.status.message().find(folder.path("file")), std::string::npos);
    EXPECT_TRUE(run.lines->empty());
  }
}

TEST(Trainer, AFinishedRunSavesNothingWhereItLoads) {
  const TempFolder folder;
  auto options = small_run();
  options.checkpoints.save = options.checkpoints.load = folder.path("save");
  SmallTrainer first(options);
  EXPECT_TRUE(first.run().ok());
  const std::string file = "/iter_0000006/mp_rank_00/model_optim_rng.pt";
  const auto written = std::filesystem::last_write_time(*options.checkpoints.save + file);
  SmallTrainer again(options);
  const Status status = again.run();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(again.count("saving checkpoint"), 0);
  EXPECT_EQ(again.count("validation loss at iteration 6 on validation set"), 1);
  EXPECT_EQ(std::filesystem::last_write_time(*options.checkpoints.save + file), written);

  options.checkpoints.save = folder.path("elsewhere");
  SmallTrainer copied(options);
  EXPECT_TRUE(copied.run().ok());
  EXPECT_EQ(test::read_file(folder.path("elsewhere") + file),
            test::read_file(folder.path("save") + file));
}

TEST(Trainer, NoDamagedTensorOrValueIsLoaded) {
  const TempFolder folder;
  auto options = small_run();
  options.checkpoints.save = folder.path("save");
  SmallTrainer saved(options);
  EXPECT_TRUE(saved.run().ok());
  options.checkpoints.load = std::exchange(options.checkpoints.save, {});
  const auto file =
      checkpoint::TorchFile::open(folder.path("save/iter_0000006/mp_rank_00/model_optim_rng.pt"));
  ASSERT_TRUE(file.has_value()) << file.status().message();
  // Weights, both moments and generators.
  ASSERT_GT(file->storages().size(), 3 * saved.trainer->model().parameters().size());
  for (int storage = 0; storage < static_cast<int>(file->storages().size()); ++storage) {
    const uint64_t middle = file->storages()[static_cast<size_t>(storage)].bytes / 2;
    test::flip_bit(*file, storage, middle);
    EXPECT_NE(SmallTrainer(options).status.message().find("CRC-32: expected"), std::string::npos)
        << storage;
    test::flip_bit(*file, storage, middle);
  }
  EXPECT_TRUE(SmallTrainer(options).status.ok());

  std::string bytes = test::read_file(file->path());
  bytes.replace(bytes.find("NullTokenizer"), 4, "Mull");
  test::write_file(file->path(), bytes);
  EXPECT_NE(SmallTrainer(options).status.message().find("data.pkl\": CRC-32: expected"),
            std::string::npos);
}

TEST(Trainer, SaysWhatItIsAndWhatItCounts) {
  SmallTrainer run(small_run());
  EXPECT_TRUE(run.run().ok());
  EXPECT_EQ(run.lines->front().find("using world size: 1, data-parallel size: 1, "), 0U);
  EXPECT_EQ(run.count("using torch.float32 for parameters ..."), 1);
  for (const char* what : {"Number of parameters in transformer block in billions: ",
                           "Number of parameters in embedding layers in billions: ",
                           "Total number of parameters in billions: ",
                           "Number of parameters in most loaded shard in billions: "}) {
    EXPECT_EQ(run.count(what), 1) << what;
  }
}

TEST(Trainer, RefusesMomentsThatNeverMove) {
  auto options = small_run();
  options.optimizer.betas = {0.9, 1};
  EXPECT_EQ(SmallTrainer(options).status.message(),
            "`adam_beta2`: expected 0 to less than 1, found 1");
}

TEST(Trainer, EvaluatesTheSameSamplesInMicroBatchesOfAnotherSize) {
  const samples::RunLength length{.train_iters = 6, .eval_iters = 2, .eval_interval = 2};
  SmallTrainer plain(small_run(length));
  const Evaluations expected = evaluations_of(plain);
  ASSERT_EQ(expected.size(), 5);
  for (const int64_t micro_batch_size : {1, 4}) {
    auto options = small_run(length);
    options.batches.eval_micro_batch_size = micro_batch_size;
    SmallTrainer run(options);
    const Evaluations found = evaluations_of(run);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i].second, expected[i].second, 1e-6);
    }
  }
}

TEST(Trainer, EvaluatesFromAnIterationOn) {
  samples::RunLength length{.train_iters = 6, .eval_iters = 1, .eval_interval = 2};
  length.start_eval_at_iter = 4;
  SmallTrainer run(small_run(length));
  const Evaluations found = evaluations_of(run);
  std::vector<int64_t> iterations;
  for (const auto& [iteration, loss] : found) iterations.push_back(iteration);
  EXPECT_EQ(iterations, (std::vector<int64_t>{4, 6, 6, 6}));
}

}  // namespace
}  // namespace meg::train
