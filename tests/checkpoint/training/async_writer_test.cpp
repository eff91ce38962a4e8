#include "libmeg/checkpoint/training/async_writer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "libmeg/checkpoint/training/write_training_checkpoint.h"
#include "libmeg/checkpoint/verify/verify_checkpoint.h"
#include "tests/checkpoint/training/training_cases.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

/// Begins to save a checkpoint of one rank.
Status save(AsyncWriter& writer, const std::string& folder, TrainingState state) {
  const auto snapshot = std::make_shared<const TrainingState>(std::move(state));
  return writer.run([folder, snapshot] {
    return write_training_checkpoint(folder, {snapshot.get(), 1});
  });
}

TEST(AsyncWriter, WritesWhatWritingAtOnceWrites) {
  test::TempFolder folder;
  const TrainingState state = test::made_state(DType::kBFloat16);
  AsyncWriter writer;
  ASSERT_EQ(save(writer, folder.path("async"), state).message(), "");
  ASSERT_EQ(writer.finish().message(), "");
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
    ASSERT_TRUE(save(writer, folder.path(), test::made_state(DType::kFloat32, iteration)).ok());
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
  ASSERT_TRUE(save(writer, folder.path(), std::move(state)).ok());
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_TRUE(bytes.expired());
}

TEST(AsyncWriter, TellsAnErrorOnceAtTheNextCall) {
  test::TempFolder folder;
  test::write_file(folder.path("file"), "");
  AsyncWriter writer;
  ASSERT_TRUE(save(writer, folder.path("file/save"), test::made_state()).ok());
  bool began = false;
  const Status failed = writer.run([&began] {
    began = true;
    return Status();
  });
  EXPECT_FALSE(failed.ok());
  EXPECT_FALSE(began);
  ASSERT_TRUE(save(writer, folder.path("save"), test::made_state(DType::kFloat32, 8)).ok());
  EXPECT_TRUE(writer.finish().ok());
  EXPECT_EQ(test::read_file(folder.path("save/latest_checkpointed_iteration.txt")), "8");
  ASSERT_TRUE(save(writer, folder.path("file/save"), test::made_state()).ok());
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
          if (!save(writer, folder.path(), state).ok()) ::_exit(1);
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
