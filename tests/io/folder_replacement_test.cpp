#include "libmeg/io/internal/folder_replacement.h"

#include <gtest/gtest.h>

#include "tests/temp_folder.h"

namespace meg::io {
namespace {

namespace fs = std::filesystem;

class FolderReplacementTest : public testing::TestWithParam<bool> {};

TEST_P(FolderReplacementTest, RenamesWhereNothingIsThere) {
  const test::TempFolder folder;
  fs::create_directory(folder.path("new"));
  const auto replaced = replace_folder(folder.path("new"), folder.path("final"), GetParam());
  ASSERT_TRUE(replaced.has_value()) << replaced.error().message();
  EXPECT_EQ(replaced->older, "");
  EXPECT_TRUE(fs::exists(folder.path("final")));
  EXPECT_EQ(folder.file_count(), 1);
}

TEST_P(FolderReplacementTest, KeepsTheOlderUnderAnotherName) {
  const test::TempFolder folder;
  fs::create_directory(folder.path("new"));
  fs::create_directory(folder.path("final"));
  test::write_file(folder.path("new/a"), "new");
  test::write_file(folder.path("final/a"), "old");
  const auto replaced = replace_folder(folder.path("new"), folder.path("final"), GetParam());
  ASSERT_TRUE(replaced.has_value()) << replaced.error().message();
  EXPECT_EQ(test::read_file(folder.path("final/a")), "new");
  EXPECT_EQ(test::read_file(replaced->older + "/a"), "old");
  EXPECT_EQ(folder.file_count(), 2);
}

TEST_P(FolderReplacementTest, LeavesEverythingWhereTheNewOneIsMissing) {
  const test::TempFolder folder;
  fs::create_directory(folder.path("final"));
  test::write_file(folder.path("final/a"), "old");
  const auto replaced = replace_folder(folder.path("new"), folder.path("final"), GetParam());
  ASSERT_FALSE(replaced.has_value());
  EXPECT_EQ(replaced.error().code(), StatusCode::kNotFound);
  EXPECT_EQ(test::read_file(folder.path("final/a")), "old");
  EXPECT_EQ(folder.file_count(), 1);
}

INSTANTIATE_TEST_SUITE_P(Ways, FolderReplacementTest, testing::Bool(), [](const auto& instance) {
  return instance.param ? "InOneStep" : "InTwoSteps";
});

}  // namespace
}  // namespace meg::io
