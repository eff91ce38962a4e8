// Checkpoints of the real megatron-core (testdata/megatron_core): converting gives what core itself
// has in the other layout, key for key and byte for byte.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/checkpoint/convert/reshard_cases.h"

namespace meg::checkpoint {
namespace {

using ::testing::IsEmpty;

struct Case {
  const char* name;
  int64_t tensor, pipeline, virtual_stages, data;
  bool has_buffers;  ///< of the distributed optimizer, in distrib_optim.pt

  std::string folder() const {
    return std::string(MEG_SOURCE_DIR "/testdata/megatron_core/") + name;
  }

  std::string ranks() const { return folder() + "/ranks"; }

  std::string whole() const { return folder() + "/whole"; }

  ReshardOptions to_ranks() const {
    ReshardOptions options = test::to_layout(tensor, pipeline, virtual_stages);
    options.data_parallel_size = data;
    return options;
  }
};

ReshardOptions to_whole() {
  ReshardOptions options = test::to_layout(1, 1);
  options.data_parallel_size = 1;
  return options;
}

/// One rank's distrib_optim.pt.
Result<TorchFile> open_buffers(const std::string& checkpoint, const std::string& rank) {
  MEG_ASSIGN_OR_RETURN(const CheckpointFolder folder, find_checkpoint(checkpoint));
  return TorchFile::open(folder.folder + "/" + rank + "/distrib_optim.pt");
}

void expect_same_files(const std::string& ours, const std::string& theirs, bool has_buffers) {
  const test::Ranks found = test::open_ranks(ours);
  const test::Ranks want = test::open_ranks(theirs);
  ASSERT_EQ(found.size(), want.size());
  for (const auto& [rank, file] : want) {
    SCOPED_TRACE(rank);
    ASSERT_TRUE(found.contains(rank));
    const test::TreeNode root = test::root_of(*file);
    for (const std::string& key : root.keys()) {
      if (key == "args") continue;
      EXPECT_THAT(test::differences(test::root_of(*found.at(rank)).at(key), root.at(key)),
                  IsEmpty())
          << key;
    }
    if (!has_buffers) continue;
    const Result<TorchFile> our_buffers = open_buffers(ours, rank);
    const Result<TorchFile> their_buffers = open_buffers(theirs, rank);
    ASSERT_TRUE(our_buffers.has_value()) << our_buffers.error().message();
    ASSERT_TRUE(their_buffers.has_value()) << their_buffers.error().message();
    EXPECT_THAT(test::differences(test::root_of(*our_buffers), test::root_of(*their_buffers)),
                IsEmpty());
  }
}

class CoreGolden : public ::testing::TestWithParam<Case> {};

TEST_P(CoreGolden, FindsTheLayout) {
  const Case& run = GetParam();
  const Result<MegatronCheckpoint> opened = test::open_checkpoint(run.ranks());
  ASSERT_TRUE(opened.has_value()) << opened.error().message();
  EXPECT_EQ(opened->tensor_model_parallel_size(), run.tensor);
  EXPECT_EQ(opened->pipeline_model_parallel_size(), run.pipeline);
  EXPECT_EQ(opened->virtual_pipeline_model_parallel_size(), run.virtual_stages);
  EXPECT_EQ(opened->family(), model::NameFamily::kMcoreLocal);
  EXPECT_EQ(opened->optimizer().form, OptimizerForm::kMixedPrecision);
}

TEST_P(CoreGolden, MergesToWhatCoreHasOnOneRank) {
  const test::TempFolder folder;
  test::reshard(GetParam().ranks(), folder.path("saved"), to_whole());
  expect_same_files(folder.path("saved"), GetParam().whole(), GetParam().has_buffers);
}

TEST_P(CoreGolden, SplitsIntoWhatCoreHasOnEachRank) {
  const Case& run = GetParam();
  const test::TempFolder folder;
  test::reshard(run.whole(), folder.path("saved"), run.to_ranks());
  expect_same_files(folder.path("saved"), run.ranks(), run.has_buffers);
}

INSTANTIATE_TEST_SUITE_P(MegatronCore, CoreGolden,
                         ::testing::Values(Case{"tp2pp2", 2, 2, 1, 1, false},
                                           Case{"pp2_vpp2", 1, 2, 2, 1, false},
                                           Case{"distopt_tp2_dp2", 2, 1, 1, 2, true}),
                         [](const auto& run) { return run.param.name; });

}  // namespace
}  // namespace meg::checkpoint
