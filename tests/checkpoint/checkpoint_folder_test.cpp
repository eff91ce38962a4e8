#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "tests/shared_data.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;

using test::read_file;
using test::shared_path;
using test::TempFolder;
using test::write_file;

/// A root with what a test needs.
class CheckpointFolderTest : public testing::Test {
 protected:
  /// Creates `name` and the folders above it.
  void add_file(const std::string& name, std::string_view text = "") {
    fs::create_directories(fs::path(folder_.path(name)).parent_path());
    write_file(folder_.path(name), text);
  }

  void add_folder(const std::string& name) { fs::create_directories(folder_.path(name)); }

  void add_tracker(std::string_view text) { add_file(std::string(kTrackerName), text); }

  Result<CheckpointFolder> find(const std::string& name = "",
                                std::optional<int64_t> iteration = std::nullopt) const {
    return find_checkpoint(name.empty() ? folder_.path() : folder_.path(name), iteration);
  }

  /// The error with this test's folder cut out.
  std::string error(StatusCode code, const std::string& name = "",
                    std::optional<int64_t> iteration = std::nullopt) const {
    const Result<CheckpointFolder> found = find(name, iteration);
    if (found) return "found " + found->folder;
    EXPECT_EQ(found.error().code(), code);
    EXPECT_EQ(found.error().message().find('\n'), std::string::npos);
    std::string message = found.error().message();
    for (size_t at = message.find(folder_.path()); at != std::string::npos;
         at = message.find(folder_.path())) {
      message.replace(at, folder_.path().size(), "ROOT");
    }
    return message;
  }

  TempFolder folder_;
};

std::vector<std::string> rank_names(const CheckpointFolder& found) {
  std::vector<std::string> names;
  for (const RankFolder& rank : found.ranks) names.push_back(rank.name);
  return names;
}

TEST(CheckpointFolderGolden, EveryCaseIsFoundInItsFormat) {
  MEG_REQUIRE_SHARED("oracle/checkpoints");
  size_t cases = 0;
  for (const auto& entry : fs::directory_iterator(shared_path("oracle/checkpoints"))) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || name == "evil") continue;
    SCOPED_TRACE(name);
    const auto found = find_checkpoint(entry.path().string());
    ASSERT_TRUE(found) << found.error().message();
    ++cases;
    if (name.starts_with("hf_")) {
      EXPECT_EQ(found->format, CheckpointFormat::kHuggingFace);
    } else if (name.find("dist_") != std::string::npos || name.ends_with("fully_reshardable")) {
      EXPECT_EQ(found->format, CheckpointFormat::kTorchDist);
      EXPECT_EQ(found->iteration, name.starts_with("core_shift") ? 2 : 200);
    } else {
      EXPECT_EQ(found->format, name == "old_deepspeed_tp2" ? CheckpointFormat::kDeepSpeed
                                                           : CheckpointFormat::kMpRank);
      EXPECT_EQ(found->root, entry.path().string());
      EXPECT_TRUE(found->iteration.has_value());
      EXPECT_FALSE(found->is_release);
    }
  }
  EXPECT_GT(cases, 50U);
}

TEST(CheckpointFolderGolden, RanksAreThoseOfTheCasesName) {
  MEG_REQUIRE_SHARED("oracle/checkpoints");
  const std::regex sizes("tp(\\d)(?:pp(\\d))?(?:_ep(\\d))?");
  const std::regex stages_alone("_pp(\\d)");
  for (const auto& entry : fs::directory_iterator(shared_path("oracle/checkpoints"))) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || name == "evil") continue;
    const auto found = find_checkpoint(entry.path().string());
    ASSERT_TRUE(found) << found.error().message();
    if (found->format != CheckpointFormat::kMpRank) continue;
    SCOPED_TRACE(name);
    const size_t to = name.rfind("tp");
    std::smatch match;
    const std::string tail = to == std::string::npos ? "tp1" : name.substr(to);
    ASSERT_TRUE(std::regex_search(tail, match, sizes));
    const int tensor_ranks = std::stoi(match[1]);
    std::smatch stages;
    const bool has_stages_alone = std::regex_search(name, stages, stages_alone);
    const int second_ranks = std::max({match[2].matched ? std::stoi(match[2]) : 1,
                                       match[3].matched ? std::stoi(match[3]) : 1,
                                       has_stages_alone ? std::stoi(stages[1]) : 1});
    ASSERT_EQ(found->ranks.size(), static_cast<size_t>(tensor_ranks * second_ranks));
    size_t i = 0;
    for (int t = 0; t < tensor_ranks; ++t) {
      for (int p = 0; p < second_ranks; ++p, ++i) {
        const RankFolder& rank = found->ranks[i];
        EXPECT_EQ(rank.name, rank_folder_name(t, p, second_ranks));
        EXPECT_EQ(rank.numbers, second_ranks == 1 ? std::vector{t} : (std::vector{t, p}));
        EXPECT_TRUE(fs::exists(rank.file)) << rank.file;
        EXPECT_EQ(rank.has_distrib_optim,
                  name.find("distopt") != std::string::npos || name.starts_with("core_shift"));
      }
    }
  }
}

TEST_F(CheckpointFolderTest, TrackerNamesTheIteration) {
  add_file("iter_0000100/mp_rank_00/model_optim_rng.pt");
  add_file("iter_0000200/mp_rank_00/model_optim_rng.pt");
  for (const char* text : {"100", " 100\n", "\t100 \r\n", "0100"}) {
    add_tracker(text);
    const auto found = find();
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(found->root, folder_.path());
    EXPECT_EQ(found->folder, folder_.path("iter_0000100"));
    EXPECT_EQ(found->iteration, 100);
    EXPECT_FALSE(found->is_release);
    EXPECT_EQ(found->ranks[0].file, folder_.path("iter_0000100/mp_rank_00/model_optim_rng.pt"));
  }
}

TEST_F(CheckpointFolderTest, TrackerNamesTheRelease) {
  add_file("release/mp_rank_00/model_optim_rng.pt");
  add_tracker("release\n");
  const auto found = find();
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->folder, folder_.path("release"));
  EXPECT_TRUE(found->is_release);
  EXPECT_EQ(found->iteration, 0);
}

TEST_F(CheckpointFolderTest, AskedIterationWinsOverTheTracker) {
  add_file("iter_0000100/mp_rank_00/model_optim_rng.pt");
  add_file("iter_12345678/mp_rank_00/model_optim_rng.pt");
  add_tracker("garbage");
  EXPECT_EQ(find("", 100)->iteration, 100);
  EXPECT_EQ(find("", 12345678)->folder, folder_.path("iter_12345678"));
  EXPECT_EQ(error(StatusCode::kNotFound, "", 7),
            "ROOT: asked for iter_0000007, expected such a folder, found iter_0000100, "
            "iter_12345678");
}

TEST_F(CheckpointFolderTest, AskedIterationNeedsNoTracker) {
  add_file("iter_0000100/mp_rank_00/model_optim_rng.pt");
  EXPECT_EQ(find("", 100)->root, "");
  EXPECT_EQ(find("iter_0000100", 100)->iteration, 100);
  EXPECT_EQ(
      error(StatusCode::kInvalidArgument, "iter_0000100", 200),
      "ROOT/iter_0000100: iteration 200 was requested: expected a root folder with iter_* in it");
}

TEST_F(CheckpointFolderTest, IterationFolderKnowsItsRoot) {
  add_file("iter_0000100/mp_rank_01/model_optim_rng.pt");
  add_file("iter_0000100/mp_rank_00/model_optim_rng.pt");
  add_tracker("200");
  for (const char* name : {"iter_0000100", "iter_0000100/", "iter_0000100//", "./iter_0000100"}) {
    const auto found = find(name);
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_TRUE(fs::equivalent(found->root, folder_.path()));
    EXPECT_EQ(found->iteration, 100);
    EXPECT_THAT(rank_names(*found), testing::ElementsAre("mp_rank_00", "mp_rank_01"));
  }
}

TEST_F(CheckpointFolderTest, CurrentFolderIsFoundByItsName) {
  add_file("iter_0000100/mp_rank_00/model_optim_rng.pt");
  add_tracker("100");
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path("iter_0000100"));
  const auto here = find_checkpoint(".");
  fs::current_path(folder_.path());
  const auto below = find_checkpoint("iter_0000100");
  fs::current_path(before);
  ASSERT_TRUE(here) << here.error().message();
  EXPECT_EQ(here->iteration, 100);
  ASSERT_TRUE(below) << below.error().message();
  EXPECT_EQ(below->root, ".");
}

TEST_F(CheckpointFolderTest, RanksStandInNumericOrder) {
  for (const char* name : {"mp_rank_10_002", "mp_rank_02_010", "mp_rank_100_000", "mp_rank_02_009",
                           "mp_rank_00_000"}) {
    add_file("iter_0000001/" + std::string(name) + "/model_optim_rng.pt");
  }
  add_file("iter_0000001/mp_rank_10_002/distrib_optim.pt");
  const auto found = find("iter_0000001");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_THAT(rank_names(*found),
              testing::ElementsAre("mp_rank_00_000", "mp_rank_02_009", "mp_rank_02_010",
                                   "mp_rank_10_002", "mp_rank_100_000"));
  EXPECT_TRUE(found->ranks[3].has_distrib_optim);
  EXPECT_FALSE(found->ranks[4].has_distrib_optim);
}

TEST_F(CheckpointFolderTest, OtherNamesAreNoRanks) {
  add_file("iter_0000001/mp_rank_00/model_optim_rng.pt");
  for (const char* name : {"mp_rank_", "mp_rank_0", "mp_rank_00_01", "mp_rank_00_000_000_000",
                           "mp_rank_0a", "mp_rank_00.old", "mp_rank_99999999999999999999"}) {
    add_file("iter_0000001/" + std::string(name) + "/model_optim_rng.pt");
  }
  add_file("iter_0000001/mp_rank_05", "a file");
  EXPECT_THAT(rank_names(*find("iter_0000001")), testing::ElementsAre("mp_rank_00"));
}

TEST_F(CheckpointFolderTest, RankFolderWithoutItsFileIsLeftOut) {
  add_file("iter_0000001/mp_rank_00/model_optim_rng.pt");
  add_folder("iter_0000001/mp_rank_01");
  EXPECT_THAT(rank_names(*find("iter_0000001")), testing::ElementsAre("mp_rank_00"));
}

TEST_F(CheckpointFolderTest, LinkedFoldersAreFollowed) {
  add_file("elsewhere/mp_rank_00/model_optim_rng.pt");
  fs::create_directory_symlink(folder_.path("elsewhere"), folder_.path("iter_0000003"));
  add_tracker("3");
  EXPECT_EQ(find()->iteration, 3);
  EXPECT_EQ(find("elsewhere")->iteration, std::nullopt);
}

TEST_F(CheckpointFolderTest, DistinguishesFormats) {
  add_file("split/mp_rank_00_000/model_rng.pt");
  add_file("split/mp_rank_00_000/optim.pt");
  EXPECT_EQ(find("split")->format, CheckpointFormat::kSplitMpRank);
  add_file("dist/iter_0000001/.metadata");
  add_file("dist/" + std::string(kTrackerName), "1");
  EXPECT_EQ(find("dist")->format, CheckpointFormat::kTorchDist);
  EXPECT_EQ(find("dist/iter_0000001")->format, CheckpointFormat::kTorchDist);
  add_file("dist2/metadata.json");
  EXPECT_EQ(find("dist2")->format, CheckpointFormat::kTorchDist);
  add_file("dist3/__0_0.distcp");
  EXPECT_EQ(find("dist3")->format, CheckpointFormat::kTorchDist);
  add_file("hf/config.json");
  add_file("hf/model.safetensors");
  EXPECT_EQ(find("hf")->format, CheckpointFormat::kHuggingFace);
  add_file("model.pt");
  EXPECT_EQ(find("model.pt")->format, CheckpointFormat::kSingleFile);
  EXPECT_EQ(find("model.pt")->folder, folder_.path("model.pt"));
  add_file("ds/latest", "global_step20\n");
  add_file("ds/global_step20/mp_rank_01_model_states.pt");
  add_file("ds/global_step20/mp_rank_00_model_states.pt");
  add_file("ds/global_step20/zero_pp_rank_0_mp_rank_00optim_states.pt");
  const auto deep_speed = find("ds");
  ASSERT_TRUE(deep_speed) << deep_speed.error().message();
  EXPECT_EQ(deep_speed->format, CheckpointFormat::kDeepSpeed);
  EXPECT_THAT(rank_names(*deep_speed), testing::ElementsAre("mp_rank_00", "mp_rank_01"));
  EXPECT_EQ(find("ds/global_step20")->format, CheckpointFormat::kDeepSpeed);
}

TEST_F(CheckpointFolderTest, WhatIsNoCheckpointIsNamed) {
  EXPECT_EQ(error(StatusCode::kNotFound, "nothing"), "ROOT/nothing: no such file or folder");
  EXPECT_EQ(find_checkpoint("").error().message(), "\"\": no such file or folder");
  EXPECT_EQ(error(StatusCode::kNotFound),
            "ROOT: not a checkpoint: expected latest_checkpointed_iteration.txt, mp_rank_* "
            "folders, .metadata (torch_dist), latest (DeepSpeed) or config.json with weights "
            "(Hugging Face), found an empty folder");
  add_file("notes.txt");
  add_file("config.json");
  EXPECT_THAT(error(StatusCode::kNotFound), testing::EndsWith("found none of them"));
  add_file("mp_rank_00/model_optim_rng.pt");
  EXPECT_EQ(error(StatusCode::kNotFound, "mp_rank_00"),
            "ROOT/mp_rank_00: the folder of one rank: expected its parent folder, or "
            "model_optim_rng.pt itself");
  add_folder("dead/mp_rank_00");
  EXPECT_EQ(error(StatusCode::kNotFound, "dead"),
            "ROOT/dead/mp_rank_00: expected model_optim_rng.pt, found no such file");
}

TEST_F(CheckpointFolderTest, RootWithoutTrackerHintsAtItsFolders) {
  add_file("iter_0000100/mp_rank_00/model_optim_rng.pt");
  EXPECT_EQ(error(StatusCode::kNotFound),
            "ROOT: no latest_checkpointed_iteration.txt: expected it, or one of its folders as "
            "the checkpoint: iter_0000100");
  add_folder("release");
  for (int i = 1; i < 10; ++i) add_folder(iteration_folder_name(i));
  EXPECT_THAT(error(StatusCode::kNotFound),
              testing::EndsWith("iter_0000007, iter_0000008 and 3 more"));
}

TEST_F(CheckpointFolderTest, DamagedTrackersAreNamed) {
  add_file("iter_0000005/mp_rank_00/model_optim_rng.pt");

  const struct {
    std::string text;
    StatusCode code;
    const char* message;
  } table[] = {
      {"", StatusCode::kCorruption, "found \"\""},
      {" \n", StatusCode::kCorruption, "found \"\""},
      {"five", StatusCode::kCorruption, "found \"five\""},
      {"5 6", StatusCode::kCorruption, "found \"5 6\""},
      {"-5", StatusCode::kCorruption, "found \"-5\""},
      {"+5", StatusCode::kCorruption, "found \"+5\""},
      {"5.0", StatusCode::kCorruption, "found \"5.0\""},
      {"Release", StatusCode::kCorruption, "found \"Release\""},
      {"../../etc", StatusCode::kCorruption, "found \"../../etc\""},
      {std::string("5\0", 2), StatusCode::kCorruption, "found \"5\\x00\""},
      {"99999999999999999999", StatusCode::kCorruption, "found \"99999999999999999999\""},
      {std::string(5000, '1'), StatusCode::kCorruption, "..."},
      {"6", StatusCode::kNotFound,
       "ROOT: latest_checkpointed_iteration.txt names iter_0000006, expected such a folder, "
       "found iter_0000005"},
      {"release", StatusCode::kNotFound, "names release, expected such a folder, found "},
  };

  for (const auto& row : table) {
    SCOPED_TRACE(row.message);
    add_tracker(row.text);
    EXPECT_THAT(error(row.code), testing::HasSubstr(row.message));
  }
}

TEST_F(CheckpointFolderTest, TrackedFolderMustHoldACheckpoint) {
  add_tracker("5");
  add_folder("iter_0000005");
  EXPECT_EQ(error(StatusCode::kNotFound),
            "ROOT/iter_0000005: not a checkpoint: expected mp_rank_* folders or .metadata, found "
            "nothing");
  add_file("iter_0000005/notes.txt");
  EXPECT_THAT(error(StatusCode::kNotFound), testing::EndsWith("found neither"));
}

TEST_F(CheckpointFolderTest, RankFoldersOfTwoLayoutsAreRefused) {
  add_file("iter_0000005/mp_rank_00/model_optim_rng.pt");
  add_file("iter_0000005/mp_rank_00_000/model_optim_rng.pt");
  EXPECT_EQ(error(StatusCode::kCorruption, "iter_0000005"),
            "ROOT/iter_0000005: expected ranks of one layout, found mp_rank_00 beside "
            "mp_rank_00_000");
  fs::remove_all(folder_.path("iter_0000005/mp_rank_00_000"));
  add_file("iter_0000005/mp_rank_000/model_optim_rng.pt");
  EXPECT_THAT(error(StatusCode::kCorruption, "iter_0000005"),
              testing::HasSubstr("mp_rank_00 beside mp_rank_000"));
}

TEST_F(CheckpointFolderTest, DamagedDeepSpeedTrackersAreNamed) {
  for (const char* text : {"", ".", "..", "../other", "a/b"}) {
    add_file("latest", text);
    EXPECT_THAT(error(StatusCode::kCorruption),
                testing::HasSubstr("ROOT/latest: expected the name of a folder"));
  }
  add_file("latest", "global_step7");
  EXPECT_THAT(error(StatusCode::kNotFound), testing::HasSubstr("global_step7"));
  add_folder("global_step7");
  EXPECT_EQ(error(StatusCode::kNotFound),
            "ROOT/global_step7: expected mp_rank_*_model_states.pt (DeepSpeed), found none");
}

TEST_F(CheckpointFolderTest, WrittenTrackerIsReadBack) {
  add_file("iter_0005000/mp_rank_00/model_optim_rng.pt");
  add_file("release/mp_rank_00/model_optim_rng.pt");
  ASSERT_TRUE(write_tracker(folder_.path(), 5000).ok());
  EXPECT_EQ(read_file(folder_.path(kTrackerName)), "5000");
  EXPECT_EQ(find()->iteration, 5000);
  ASSERT_TRUE(write_tracker(folder_.path(), std::nullopt).ok());
  EXPECT_EQ(read_file(folder_.path(kTrackerName)), "release");
  EXPECT_TRUE(find()->is_release);
  EXPECT_EQ(folder_.file_count(), 3);
}

TEST(RankFolderName, FollowsMegatron) {
  EXPECT_EQ(rank_folder_name(0, 0, 1), "mp_rank_00");
  EXPECT_EQ(rank_folder_name(3, 12, 16), "mp_rank_03_012");
  EXPECT_EQ(rank_folder_name(123, 0, 2), "mp_rank_123_000");
  EXPECT_EQ(iteration_folder_name(5000), "iter_0005000");
  EXPECT_EQ(iteration_folder_name(12345678), "iter_12345678");
}

}  // namespace
}  // namespace meg::checkpoint
