#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libmeg/checkpoint/inspect/checkpoint_statistics.h"
#include "libmeg/checkpoint/inspect/checkpoint_summary.h"
#include "libmeg/checkpoint/inspect/named_code.h"
#include "libmeg/checkpoint/inspect/pickle_outline.h"
#include "tests/shared_data.h"

namespace meg::checkpoint {
namespace {

using nlohmann::json;

const std::string kCases = "oracle/checkpoints";

json read_json(const std::string& path) { return json::parse(std::ifstream(path)); }

/// name, dtype and shape of every tensor, one text each.
std::vector<std::string> tensors_of(const FileSummary& file) {
  std::vector<std::string> texts;
  for (const NamedTensor& tensor : file.contents.tensors) {
    texts.push_back(tensor.name + " " + tensor.dtype + " " + shape_text(tensor.shape));
  }
  return texts;
}

std::vector<std::string> tensors_of(const json& expected) {
  std::vector<std::string> texts;
  for (const json& tensor : expected) {
    texts.push_back(tensor["name"].get<std::string>() + " " + tensor["dtype"].get<std::string>() +
                    " " + shape_text(tensor["shape"].get<std::vector<int64_t>>()));
  }
  return texts;
}

Result<CheckpointSummary> summarize(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const CheckpointFolder folder, find_checkpoint(path));
  return summarize_checkpoint(folder);
}

TEST(CheckpointSummary, ListsTheTensorsOfEveryGoldenCheckpoint) {
  MEG_REQUIRE_SHARED(kCases);
  int checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::shared_path(kCases))) {
    const std::string path = entry.path().string();
    if (!std::filesystem::exists(path + "/tensors.json")) continue;
    const auto summary = summarize(path);
    ASSERT_TRUE(summary.has_value()) << path << ": " << summary.error().message();
    const CheckpointFormat format = summary->folder.format;
    if (format == CheckpointFormat::kTorchDist || format == CheckpointFormat::kHuggingFace)
      continue;
    SCOPED_TRACE(path);
    const json expected = read_json(path + "/tensors.json");
    EXPECT_EQ(summary->files.size(), expected.size());
    EXPECT_THAT(summary->missing_ranks, testing::IsEmpty());
    const std::string folder = std::filesystem::path(summary->folder.folder).filename().string();
    for (const FileSummary& file : summary->files) {
      const json& tensors = expected[folder + "/" + file.path];
      EXPECT_THAT(tensors_of(file), testing::UnorderedElementsAreArray(tensors_of(tensors)));
      ++checked;
    }
  }
  EXPECT_GT(checked, 0);
}

TEST(CheckpointSummary, ListsTheTensorsOfReadableOddFiles) {
  MEG_REQUIRE_SHARED(kCases + "/evil");
  const std::string evil = test::shared_path(kCases + "/evil/");
  int checked = 0;
  const json cases = read_json(evil + "expected.json");
  for (const auto& [name, expected] : cases.items()) {
    if (!name.ends_with(".pt") || !expected.contains("tensors")) continue;
    const auto summary = summarize(evil + name);
    if (!summary.has_value()) {
      EXPECT_EQ(summary.error().code(), StatusCode::kUnsupported) << summary.error().message();
      continue;
    }
    EXPECT_THAT(tensors_of(summary->files[0]),
                testing::IsSupersetOf(tensors_of(expected["tensors"])))
        << name;
    ++checked;
  }
  EXPECT_GT(checked, 20);
}

TEST(CheckpointSummary, SurvivesEveryHostileFile) {
  MEG_REQUIRE_SHARED(kCases + "/evil");
  for (const auto& entry :
       std::filesystem::directory_iterator(test::shared_path(kCases + "/evil"))) {
    const auto summary = summarize(entry.path().string());
    if (!summary.has_value()) continue;
    const FileSummary& file = summary->files[0];
    EXPECT_LE(outline_of(*file.file, 50).lines.size(), 50U);
    EXPECT_TRUE(checkpoint_statistics(*summary).has_value()) << entry.path();
  }
  EXPECT_FALSE(std::filesystem::exists("EVIL_WAS_EXECUTED"));
}

TEST(NamedCode, PutsWhatOnlyAnAttackNamesFirst) {
  MEG_REQUIRE_SHARED(kCases + "/evil");
  const auto file =
      TorchFile::open(test::shared_path(kCases + "/evil/evil_os_system_with_tensor.pt"));
  ASSERT_TRUE(file.has_value()) << file.error().message();
  const std::vector<NamedCode> codes = named_code(file->graph());
  ASSERT_FALSE(codes.empty());
  EXPECT_EQ(codes[0].name, "os.system");
  EXPECT_FALSE(codes[0].is_usual);
  EXPECT_EQ(codes[0].calls, 1);
  EXPECT_THAT(codes[0].first_call, testing::HasSubstr("touch EVIL_WAS_EXECUTED"));
  for (size_t i = 1; i < codes.size(); ++i) EXPECT_TRUE(codes[i].is_usual) << codes[i].name;
}

TEST(NamedCode, IsUsualInEveryGoldenCheckpoint) {
  MEG_REQUIRE_SHARED(kCases);
  for (const auto& entry : std::filesystem::directory_iterator(test::shared_path(kCases))) {
    const auto summary = summarize(entry.path().string());
    if (!summary.has_value()) continue;
    for (const FileSummary& file : summary->files) {
      if (file.file == nullptr) continue;
      for (const NamedCode& code : named_code(file.file->graph())) {
        EXPECT_TRUE(code.is_usual) << entry.path() << " names " << code.name;
      }
    }
  }
}

/// The totals over parameters of one kind.
TensorStatistics total_of(const std::string& path, std::string_view kind) {
  const auto summary = summarize(path);
  EXPECT_TRUE(summary.has_value());
  const auto statistics = checkpoint_statistics(*summary);
  EXPECT_TRUE(statistics.has_value());
  TensorStatistics total;
  for (const NamedStatistics& tensor : *statistics) {
    if (tensor.kind == kind && tensor.layer.has_value()) total.append(tensor.statistics);
  }
  return total;
}

TEST(CheckpointStatistics, AreTheSameToTheLastBitInEveryLayout) {
  const std::string source = kCases + "/gpt_tp2pp2_fp16";
  MEG_REQUIRE_SHARED(source);
  const TensorStatistics first = total_of(test::shared_path(source + "__to_tp1pp1"), "weight");
  EXPECT_GT(first.elements, 0);
  for (const char* layout : {"__to_tp1pp4", "__to_tp2pp1", "__to_tp4pp1"}) {
    const TensorStatistics other = total_of(test::shared_path(source + layout), "weight");
    EXPECT_EQ(other.elements, first.elements) << layout;
    EXPECT_EQ(other.sum, first.sum) << layout;
    EXPECT_EQ(other.sum_of_squares, first.sum_of_squares) << layout;
    EXPECT_EQ(other.min, first.min) << layout;
  }
}

}  // namespace
}  // namespace meg::checkpoint
