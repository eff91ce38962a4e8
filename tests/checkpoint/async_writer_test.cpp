#include "libmeg/checkpoint/training/async_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "libmeg/checkpoint/training/write_training_checkpoint.h"
#include "libmeg/checkpoint/verify/verify_checkpoint.h"
#include "tests/checkpoint/training_cases.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(AsyncWriter, WritesWhatWritingAtOnceWrites) {
  test::TempFolder folder;
  const TrainingState state = test::made_state(DType::kBFloat16);
  AsyncWriter writer;
  ASSERT_EQ(writer.save(folder.path("async"), TrainingState(state)).message(), "");
  ASSERT_EQ(writer.finish().message(), "");
  EXPECT_EQ(writer.saved_iteration(), 7);
  EXPECT_FALSE(writer.is_busy());
  ASSERT_TRUE(write_training_checkpoint(folder.path("at-once"), {&state, 1}).ok());
  const std::string file = "/iter_0000007/mp_rank_00/model_optim_rng.pt";
  EXPECT_EQ(test::read_file(folder.path("async") + file),
            test::read_file(folder.path("at-once") + file));
}

TEST(AsyncWriter, SavesOneAfterTheOther) {
  test::TempFolder folder;
  AsyncWriter writer;
  for (int64_t iteration = 1; iteration <= 5; ++iteration) {
    ASSERT_TRUE(writer.save(folder.path(), test::made_state(DType::kFloat32, iteration)).ok());
    EXPECT_EQ(writer.saved_iteration().value_or(0), iteration - 1);
  }
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_EQ(test::read_file(folder.path("latest_checkpointed_iteration.txt")), "5");
  EXPECT_EQ(folder.file_count(), 6);
}

TEST(AsyncWriter, ReleasesTheSnapshotWhenTheSaveHasEnded) {
  test::TempFolder folder;
  TrainingState state = test::made_state();
  const std::weak_ptr<const void> bytes = state.parameters[0].weight.owner;
  AsyncWriter writer;
  ASSERT_TRUE(writer.save(folder.path(), std::move(state)).ok());
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_TRUE(bytes.expired());
}

TEST(AsyncWriter, TellsAnErrorOnceAtTheNextCallAndKeepsItsSnapshot) {
  test::TempFolder folder;
  test::write_file(folder.path("file"), "");
  AsyncWriter writer;
  ASSERT_TRUE(writer.save(folder.path("file/save"), test::made_state()).ok());
  TrainingState next = test::made_state(DType::kFloat32, 8);
  const size_t parameters = next.parameters.size();
  const Status failed = writer.save(folder.path("save"), std::move(next));
  EXPECT_THAT(failed.message(), HasSubstr("cannot save"));
  EXPECT_EQ(next.parameters.size(), parameters);  // NOLINT(bugprone-use-after-move)
  ASSERT_TRUE(writer.save(folder.path("save"), std::move(next)).ok());
  EXPECT_TRUE(writer.finish().ok());
  EXPECT_EQ(writer.saved_iteration(), 8);
  ASSERT_TRUE(writer.save(folder.path("file/save"), test::made_state()).ok());
  EXPECT_FALSE(writer.finish().ok());
  EXPECT_TRUE(writer.finish().ok());
}

TEST(AsyncWriter, KilledAtAnyTimeLeavesAWholeCheckpointBehindTheTracker) {
  test::TempFolder folder;
  const TrainingState first = test::made_state(DType::kBFloat16, 1);
  ASSERT_TRUE(write_training_checkpoint(folder.path(), {&first, 1}).ok());
  const std::vector<TrainingState> further = {test::made_state(DType::kBFloat16, 2),
                                              test::made_state(DType::kBFloat16, 3)};
  for (int trial = 0; trial < 30; ++trial) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      AsyncWriter writer;
      while (true) {
        for (const TrainingState& state : further) {
          if (!writer.save(folder.path(), TrainingState(state)).ok()) ::_exit(1);
        }
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(700 * trial));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto report = verify_checkpoint(folder.path(), {});
    ASSERT_TRUE(report.has_value()) << report.status().message();
    for (const Problem& problem : report->problems) {
      if (problem.check != CheckpointCheck::kNegative) ADD_FAILURE() << problem.message();
    }
    const MegatronCheckpoint checkpoint = test::open_or_fail(folder.path());
    EXPECT_EQ(std::to_string(*checkpoint.iteration()),
              test::read_file(folder.path("latest_checkpointed_iteration.txt")));
  }
  // What the killed ones left is removed by the next save.
  ASSERT_TRUE(write_training_checkpoint(folder.path(), {&further[0], 1}).ok());
  ASSERT_TRUE(write_training_checkpoint(folder.path(), {&further[1], 1}).ok());
  EXPECT_LE(folder.file_count(), 4);
}

}  // namespace
}  // namespace meg::checkpoint
