#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libmeg/checkpoint/training/internal/rng_tree.h"
#include "libmeg/checkpoint/training/seeded_generators.h"
#include "libmeg/checkpoint/training/write_training_checkpoint.h"
#include "libmeg/checkpoint/verify/verify_checkpoint.h"
#include "tests/checkpoint/torch_tree.h"
#include "tests/checkpoint/training/training_cases.h"
#include "tests/shared_data.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

struct Golden {
  const char* name;
  model::NameFamily names;
  bool has_optimizer = true;
  bool has_rerun_state = false;
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }

std::string written(const std::string& folder, const MegatronCheckpoint& checkpoint,
                    const Golden& golden) {
  std::vector<TrainingState> ranks;
  for (const RankFile& file : checkpoint.files()) {
    ranks.push_back(test::state_of_rank(checkpoint, {.no_load_optim = !golden.has_optimizer,
                                                     .tensor_rank = file.tensor_rank,
                                                     .pipeline_rank = file.pipeline_rank}));
  }
  const Status status = write_training_checkpoint(
      folder, ranks, {.names = golden.names, .rerun_state_machine = golden.has_rerun_state});
  EXPECT_TRUE(status.ok()) << status.message();
  return folder;
}

/// Differences except in the form of numpy's array, which is compared by its words, and the
/// iteration at which core's rerun machine stands, which follows its checks.
std::vector<std::string> notable_differences(const TorchFile& a, const TorchFile& b) {
  std::vector<std::string> found = test::differences(test::root_of(a), test::root_of(b));
  std::erase_if(found, [](const std::string& difference) {
    return difference.find("/'np_rng_state'/1") != std::string::npos ||
           difference.find("'current_iteration': ") != std::string::npos;
  });
  return found;
}

class GoldenTraining : public ::testing::TestWithParam<Golden> {};

TEST_P(GoldenTraining, IsWrittenAgainAsMegatronWroteIt) {
  MEG_REQUIRE_SHARED(std::string("oracle/") + GetParam().name);
  test::TempFolder folder;
  const MegatronCheckpoint golden =
      test::open_or_fail(test::shared_path(std::string("oracle/") + GetParam().name));
  const MegatronCheckpoint ours =
      test::open_or_fail(written(folder.path("ours"), golden, GetParam()));
  ASSERT_EQ(ours.files().size(), golden.files().size());
  EXPECT_EQ(ours.folder().iteration, golden.folder().iteration);
  for (size_t i = 0; i < golden.files().size(); ++i) {
    EXPECT_EQ(ours.files()[i].folder_name, golden.files()[i].folder_name);
    EXPECT_THAT(notable_differences(*golden.files()[i].file, *ours.files()[i].file),
                ::testing::IsEmpty());
    EXPECT_EQ(read_rng_state(*ours.files()[i].file)->numpy_random.words,
              read_rng_state(*golden.files()[i].file)->numpy_random.words);
  }
}

TEST_P(GoldenTraining, StaysTheSameThroughEveryFurtherRoundTrip) {
  MEG_REQUIRE_SHARED(std::string("oracle/") + GetParam().name);
  test::TempFolder folder;
  const MegatronCheckpoint golden =
      test::open_or_fail(test::shared_path(std::string("oracle/") + GetParam().name));
  const MegatronCheckpoint first =
      test::open_or_fail(written(folder.path("first"), golden, GetParam()));
  const MegatronCheckpoint second =
      test::open_or_fail(written(folder.path("second"), first, GetParam()));
  for (size_t i = 0; i < first.files().size(); ++i) {
    EXPECT_EQ(test::read_file(first.files()[i].file->path()),
              test::read_file(second.files()[i].file->path()));
  }
}

TEST_P(GoldenTraining, IsCleanWhenVerified) {
  MEG_REQUIRE_SHARED(std::string("oracle/") + GetParam().name);
  test::TempFolder folder;
  const MegatronCheckpoint golden =
      test::open_or_fail(test::shared_path(std::string("oracle/") + GetParam().name));
  const auto report = verify_checkpoint(written(folder.path("ours"), golden, GetParam()), {});
  ASSERT_TRUE(report.has_value()) << report.status().message();
  for (const Problem& problem : report->problems) ADD_FAILURE() << problem.message();
}

constexpr auto kLegacy = model::NameFamily::kLegacy;
constexpr auto kMcore = model::NameFamily::kMcoreLocal;

INSTANTIATE_TEST_SUITE_P(
    Oracle, GoldenTraining,
    ::testing::Values(Golden{"training/gpt_fp32/mid", kLegacy},
                      Golden{"training/gpt_fp32/final", kLegacy},
                      Golden{"training/gpt_fp16/final", kLegacy},
                      Golden{"training/gpt_bf16/final", kLegacy, false},
                      Golden{"training/gpt_llamaish_fp32/final", kLegacy, false},
                      Golden{"training/gpt_fp32_tp2pp2/final", kLegacy},
                      Golden{"training/mcore_gpt_fp32/final", kMcore, false, true},
                      Golden{"training/mcore_llama_fp32/final", kMcore, false, true},
                      Golden{"checkpoints/gpt_tp2pp2_fp16", kLegacy},
                      Golden{"checkpoints/gpt_tp1pp3_vpp2_fp16", kLegacy},
                      Golden{"checkpoints/gpt_tp2pp2_bf16_untied", kLegacy},
                      Golden{"checkpoints/mcore_gpt_tp1pp1_fp32", kMcore, true, true},
                      Golden{"checkpoints/mcore_gpt_tp2pp2_bf16", kMcore, true, true},
                      Golden{"checkpoints/mcore_llama_tp2pp1_fp32", kMcore, true, true}),
    [](const auto& golden) {
      std::string name = golden.param.name;
      std::replace(name.begin(), name.end(), '/', '_');
      return name;
    });

TEST(SeededGenerators, AreThoseThatMegatronSaved) {
  struct Case {
    const char* path;
    int64_t tensor_rank, pipeline_rank;
    model::NameFamily names;
  };

  for (const Case& c : {Case{"training/gpt_fp32/mid", 0, 0, kLegacy},
                        Case{"training/gpt_fp32_tp2pp2/final", 1, 1, kLegacy},
                        Case{"training/mcore_gpt_fp32/final", 0, 0, kMcore}}) {
    SCOPED_TRACE(c.path);
    MEG_REQUIRE_SHARED(std::string("oracle/") + c.path);
    const MegatronCheckpoint golden =
        test::open_or_fail(test::shared_path(std::string("oracle/") + c.path));
    const int index = golden.file_index(c.tensor_rank, c.pipeline_rank);
    const auto saved = read_rng_state(*golden.files()[static_cast<size_t>(index)].file);
    ASSERT_TRUE(saved.has_value()) << saved.status().message();
    const RngState seeded = seeded_rng_state(42, c.tensor_rank, c.pipeline_rank, c.names);
    EXPECT_EQ(seeded.python_random.words, saved->python_random.words);
    EXPECT_EQ(seeded.python_random.position, saved->python_random.position);
    EXPECT_EQ(seeded.numpy_random.words, saved->numpy_random.words);
    EXPECT_EQ(seeded.numpy_random.position, saved->numpy_random.position);
    EXPECT_EQ(seeded.torch.size(), saved->torch.size());
    EXPECT_EQ(seeded.cuda, saved->cuda);
    EXPECT_EQ(seeded.tracker, saved->tracker);
  }
}

}  // namespace
}  // namespace meg::checkpoint
