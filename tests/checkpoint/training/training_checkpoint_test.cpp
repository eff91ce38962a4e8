#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "libmeg/checkpoint/training/read_training_tensors.h"
#include "libmeg/checkpoint/training/write_training_checkpoint.h"
#include "libmeg/checkpoint/verify/verify_checkpoint.h"
#include "tests/checkpoint/torch_tree.h"
#include "tests/checkpoint/training/training_cases.h"
#include "tests/small_filesystem.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Status write(const std::string& folder, const TrainingState& state,
             model::NameFamily names = model::NameFamily::kMcoreLocal,
             CheckpointFormat format = CheckpointFormat::kMpRank) {
  return write_training_checkpoint(folder, {&state, 1}, {.format = format, .names = names});
}

Status write_dist(const std::string& folder, const TrainingState& state) {
  return write(folder, state, model::NameFamily::kMcoreLocal, CheckpointFormat::kTorchDist);
}

std::vector<std::byte> bytes_of(const TrainingTensor& tensor) {
  return {tensor.bytes.begin(), tensor.bytes.end()};
}

void expect_equal_tensors(const TrainingState& a, const TrainingState& b) {
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    const TrainingParameter& x = a.parameters[i];
    const TrainingParameter& y = b.parameters[i];
    SCOPED_TRACE(x.name);
    ASSERT_EQ(x.name, y.name);
    EXPECT_EQ(x.weight.dtype, y.weight.dtype);
    EXPECT_EQ(bytes_of(x.weight), bytes_of(y.weight));
    ASSERT_EQ(x.fp32_param.has_value(), y.fp32_param.has_value());
    if (x.fp32_param.has_value()) {
      EXPECT_EQ(bytes_of(*x.fp32_param), bytes_of(*y.fp32_param));
    }
    EXPECT_EQ(bytes_of(*x.exp_avg), bytes_of(*y.exp_avg));
    EXPECT_EQ(bytes_of(*x.exp_avg_sq), bytes_of(*y.exp_avg_sq));
  }
}

class EveryForm
    : public ::testing::TestWithParam<std::tuple<DType, model::NameFamily, CheckpointFormat>> {};

TEST_P(EveryForm, IsReadBackToTheBit) {
  const auto [dtype, names, format] = GetParam();
  test::TempFolder folder;
  TrainingState state = test::made_state(dtype);
  if (names == model::NameFamily::kLegacy) {
    state.num_floating_point_operations_so_far = int64_t{0};  // not in those files
    state.optimizer->decay.max_lr = state.optimizer->no_decay.max_lr = 0.0;
  }
  ASSERT_EQ(write(folder.path("save"), state, names, format).message(), "");
  const MegatronCheckpoint checkpoint = test::open_or_fail(folder.path("save"));
  // torch_dist has one spelling; args without transformer_impl ask for that one.
  EXPECT_EQ(checkpoint.family(), format == CheckpointFormat::kTorchDist
                                     ? model::NameFamily::kMcoreTransformerEngine
                                     : names);
  EXPECT_EQ(checkpoint.iteration(), 7);
  TrainingState read = test::state_of_rank(checkpoint);
  // The names' order is the family's.
  const auto by_name = [](const TrainingParameter& a, const TrainingParameter& b) {
    return a.name < b.name;
  };
  std::sort(read.parameters.begin(), read.parameters.end(), by_name);
  std::sort(state.parameters.begin(), state.parameters.end(), by_name);
  expect_equal_tensors(read, state);
  EXPECT_EQ(read.iteration, 7);
  EXPECT_EQ(read.consumed_train_samples, 56);
  EXPECT_EQ(read.consumed_valid_samples, 3);
  for (const auto& [name, value] : state.args.entries()) {
    ASSERT_NE(read.args.find(name), nullptr) << name;
    EXPECT_EQ(*read.args.find(name), value) << name;
  }
  EXPECT_EQ(read.optimizer->mixed_precision, dtype != DType::kFloat32);
  EXPECT_EQ(read.optimizer->decay.step, 7);
  EXPECT_EQ(read.optimizer->decay.lr, 0.125);
  EXPECT_EQ(read.optimizer->decay.wd_mult, 1.0);
  EXPECT_EQ(read.optimizer->no_decay.wd_mult, 0.0);
  EXPECT_EQ(read.optimizer->decay.max_lr, names == model::NameFamily::kLegacy ? 0.0 : 0.25);
  ASSERT_EQ(read.optimizer->grad_scaler.has_value(), dtype == DType::kFloat16);
  if (dtype == DType::kFloat16) {
    EXPECT_EQ(read.optimizer->grad_scaler->dynamic->scale, 65536.0F);
    EXPECT_EQ(read.optimizer->grad_scaler->dynamic->growth_tracker, 5);
    EXPECT_EQ(read.optimizer->grad_scaler->dynamic->hysteresis_tracker, 1);
  }
  EXPECT_EQ(read.opt_param_scheduler, state.opt_param_scheduler);
  EXPECT_EQ(read.rng->torch, state.rng->torch);
  EXPECT_EQ(read.rng->python_random.words, state.rng->python_random.words);
  EXPECT_EQ(read.num_floating_point_operations_so_far, state.num_floating_point_operations_so_far);
}

TEST_P(EveryForm, IsCleanWhenVerified) {
  const auto [dtype, names, format] = GetParam();
  test::TempFolder folder;
  TrainingState state = test::made_state(dtype);
  for (TrainingParameter& parameter : state.parameters) {
    parameter.exp_avg_sq = test::owned_tensor(
        DType::kFloat32, parameter.weight.shape,
        std::vector<std::byte>(parameter.exp_avg_sq->bytes.size()));  // squares: not negative
  }
  ASSERT_EQ(write(folder.path("save"), state, names, format).message(), "");
  const auto report = verify_checkpoint(folder.path("save"), {});
  ASSERT_TRUE(report.has_value()) << report.status().message();
  for (const Problem& problem : report->problems) ADD_FAILURE() << problem.message();
  EXPECT_EQ(report->notes.size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Training, EveryForm,
    ::testing::Values(
        std::tuple(DType::kFloat32, model::NameFamily::kMcoreLocal, CheckpointFormat::kMpRank),
        std::tuple(DType::kFloat16, model::NameFamily::kMcoreLocal, CheckpointFormat::kMpRank),
        std::tuple(DType::kBFloat16, model::NameFamily::kMcoreLocal, CheckpointFormat::kMpRank),
        std::tuple(DType::kFloat32, model::NameFamily::kLegacy, CheckpointFormat::kMpRank),
        std::tuple(DType::kFloat16, model::NameFamily::kLegacy, CheckpointFormat::kMpRank),
        std::tuple(DType::kBFloat16, model::NameFamily::kLegacy, CheckpointFormat::kMpRank),
        std::tuple(DType::kFloat32, model::NameFamily::kMcoreLocal, CheckpointFormat::kTorchDist),
        std::tuple(DType::kFloat16, model::NameFamily::kMcoreLocal, CheckpointFormat::kTorchDist),
        std::tuple(DType::kBFloat16, model::NameFamily::kMcoreLocal,
                   CheckpointFormat::kTorchDist)));

TEST(WriteTrainingCheckpoint, HasTheKeysOfItsRevision) {
  test::TempFolder folder;
  const TrainingState state = test::made_state();
  ASSERT_TRUE(write(folder.path("core"), state).ok());
  ASSERT_TRUE(write(folder.path("legacy"), state, model::NameFamily::kLegacy).ok());
  const MegatronCheckpoint core = test::open_or_fail(folder.path("core"));
  const MegatronCheckpoint legacy = test::open_or_fail(folder.path("legacy"));
  EXPECT_THAT(
      test::root_of(*core.files()[0].file).keys(),
      ElementsAre("args", "checkpoint_version", "iteration", "model", "optimizer",
                  "opt_param_scheduler", "rng_state", "num_floating_point_operations_so_far"));
  EXPECT_THAT(test::root_of(*legacy.files()[0].file).keys(),
              ElementsAre("args", "checkpoint_version", "iteration", "model", "optimizer",
                          "opt_param_scheduler", "rng_state"));
}

TEST(WriteTrainingCheckpoint, WritesZeroMomentsBeforeTheFirstStep) {
  test::TempFolder folder;
  TrainingState state = test::made_state();
  for (TrainingParameter& parameter : state.parameters) {
    parameter.exp_avg.reset();
    parameter.exp_avg_sq.reset();
  }
  state.optimizer->decay.step = state.optimizer->no_decay.step = std::nullopt;
  ASSERT_EQ(write(folder.path("save"), state).message(), "");
  const MegatronCheckpoint checkpoint = test::open_or_fail(folder.path("save"));
  const auto read = read_training_state(checkpoint);
  ASSERT_TRUE(read.has_value()) << read.status().message();
  EXPECT_EQ(read->optimizer->decay.step, std::nullopt);
  std::vector<std::byte> bytes(24 * 16 * 4, std::byte{1});
  const TrainingTensorTarget target{.name = "embedding.word_embeddings.weight",
                                    .kind = "exp_avg",
                                    .shape = {24, 16},
                                    .bytes = bytes};
  ASSERT_EQ(read_training_tensors(checkpoint, {&target, 1}).message(), "");
  EXPECT_EQ(bytes, std::vector<std::byte>(bytes.size()));
}

TEST(WriteTrainingCheckpoint, RefusesStatesThatAreNotWhole) {
  test::TempFolder folder;
  const auto error_of = [&](const auto& spoil) {
    TrainingState state = test::made_state(DType::kBFloat16);
    spoil(&state);
    const Status status = write(folder.path("save"), state);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(fs::exists(folder.path("save/iter_0000007")), false);
    EXPECT_EQ(fs::exists(folder.path("save/latest_checkpointed_iteration.txt")), false);
    return status.message();
  };
  EXPECT_THAT(error_of([](TrainingState* state) { state->parameters.pop_back(); }),
              HasSubstr("decoder.final_layernorm.bias: expected this parameter of the model"));
  EXPECT_THAT(error_of([](TrainingState* state) { state->parameters[0].name = "extra.weight"; }),
              HasSubstr("embedding.word_embeddings.weight: expected this parameter"));
  EXPECT_THAT(
      error_of([](TrainingState* state) { state->parameters.push_back(state->parameters[1]); }),
      HasSubstr("embedding.position_embeddings.weight: handed over twice"));
  EXPECT_THAT(error_of([](TrainingState* state) {
                state->parameters.push_back(state->parameters[1]);
                state->parameters.back().name = "extra.weight";
              }),
              HasSubstr("extra.weight: not a parameter of the model"));
  EXPECT_THAT(error_of([](TrainingState* state) {
                state->parameters[1].weight.shape = {16, 12};
              }),
              HasSubstr("weight: expected shape [12, 16], found [16, 12]"));
  EXPECT_THAT(error_of([](TrainingState* state) {
                state->parameters[1].weight.bytes = state->parameters[1].weight.bytes.first(10);
              }),
              HasSubstr("expected 384 bytes, found 10"));
  EXPECT_THAT(error_of([](TrainingState* state) { state->parameters[3].exp_avg.reset(); }),
              HasSubstr("expected exp_avg and exp_avg_sq on all parameters or on none"));
  EXPECT_THAT(error_of([](TrainingState* state) { state->parameters[3].fp32_param.reset(); }),
              HasSubstr("expected an fp32 master"));
  EXPECT_THAT(error_of([](TrainingState* state) { state->args = TrainingArgs(); }),
              HasSubstr("args: expected num_layers, which loaders require, found none"));
}

TEST(WriteTrainingCheckpoint, ReplacesOneOfTheSameIterationAndMovesTheTrackerLast) {
  test::TempFolder folder;
  TrainingState state = test::made_state();
  ASSERT_TRUE(write(folder.path(), state).ok());
  state.consumed_valid_samples = 99;
  ASSERT_TRUE(write(folder.path(), state).ok());
  EXPECT_EQ(test::state_of_rank(test::open_or_fail(folder.path())).consumed_valid_samples, 99);
  state.iteration = 8;
  ASSERT_TRUE(write(folder.path(), state).ok());
  EXPECT_EQ(test::read_file(folder.path("latest_checkpointed_iteration.txt")), "8");
  EXPECT_EQ(folder.file_count(), 3);
}

TEST(WriteTrainingCheckpoint, ReplacesATorchDistFolderOrLeavesNothing) {
  test::TempFolder folder;
  TrainingState state = test::made_state(DType::kBFloat16);
  ASSERT_EQ(write_dist(folder.path(), state).message(), "");
  state.consumed_valid_samples = 99;
  ASSERT_EQ(write_dist(folder.path(), state).message(), "");
  EXPECT_EQ(test::state_of_rank(test::open_or_fail(folder.path())).consumed_valid_samples, 99);
  TrainingState half = test::made_state(DType::kBFloat16, 8);
  half.data_size = 2;
  EXPECT_THAT(write_dist(folder.path(), half).message(), HasSubstr("__1_.metadata"));
  state.iteration = 8;
  state.parameters.pop_back();
  EXPECT_EQ(write_dist(folder.path(), state).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(test::read_file(folder.path("latest_checkpointed_iteration.txt")), "7");
  EXPECT_EQ(folder.file_count(), 2);
}

TEST(WriteTrainingCheckpoint, SavesWhereALinkLeads) {
  test::TempFolder folder;
  fs::create_directory(folder.path("disk"));
  fs::create_directory_symlink("disk", folder.path("save"));
  TrainingState state = test::made_state(DType::kFloat32);
  for (const int64_t iteration : {7, 8, 8}) {
    state.iteration = iteration;
    ASSERT_EQ(write(folder.path("save"), state).message(), "");
    EXPECT_EQ(test::open_or_fail(folder.path("disk")).iteration(), iteration);
  }
}

TEST(WriteTrainingCheckpoint, LeavesThePreviousOneWhereTheDiskIsFull) {
  test::TempFolder folder;
  fs::create_directory(folder.path("small"));
  const TrainingState first = test::made_state(DType::kFloat32, 7);
  const TrainingState second = test::made_state(DType::kFloat32, 8);
  const std::string at = folder.path("small");
  const bool mounted = test::in_small_filesystem(at, "size=256k", [&]() -> std::string {
    const Status written = write(at, first);
    if (!written.ok()) return "first: " + written.message();
    const Status full = write(at, second);
    if (full.code() != StatusCode::kResourceExhausted) return "second: " + full.message();
    for (const char* part :
         {": cannot save: ", "iter_0000008", "No space left on device", "(the file needs "}) {
      if (full.message().find(part) == std::string::npos) return full.message();
    }
    if (test::read_file(at + "/latest_checkpointed_iteration.txt") != "7") return "tracker";
    const auto report = verify_checkpoint(at, {});
    if (!report.has_value()) return report.status().message();
    if (report->iteration != 7) return "iteration";
    int entries = 0;
    for (const auto& entry : fs::directory_iterator(at)) entries += entry.exists() ? 1 : 0;
    return entries == 2 ? "" : "something is left of the second";
  });
  if (!mounted) GTEST_SKIP() << "this process may not mount a small filesystem";
}

TEST(WriteTrainingCheckpoint, NamesTheFolderThatCannotBeWritten) {
  test::TempFolder folder;
  test::write_file(folder.path("file"), "");
  const Status status = write(folder.path("file/save"), test::made_state());
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr(folder.path("file/save") + ": cannot save: "));
  EXPECT_THAT(status.message(), HasSubstr("Not a directory"));
}

}  // namespace
}  // namespace meg::checkpoint
