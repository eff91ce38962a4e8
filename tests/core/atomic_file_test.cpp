#include "libmeg/core/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>

#include "tests/temp_folder.h"

namespace meg {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(AtomicFile, AppearsOnlyAtCommit) {
  const test::TempFolder folder;
  auto file = AtomicFile::create(folder.path("a"));
  ASSERT_TRUE(file.has_value()) << file.error().message();
  ASSERT_TRUE(file->write(bytes_of("hello")).ok());
  EXPECT_FALSE(std::filesystem::exists(folder.path("a")));
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(test::read_file(folder.path("a")), "hello");
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const test::TempFolder folder;
  test::write_file(folder.path("a"), "old");
  {
    auto file = AtomicFile::create(folder.path("a"));
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE(file->write(bytes_of("new")).ok());
  }
  EXPECT_EQ(test::read_file(folder.path("a")), "old");
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(AtomicFile, RemovesPartialsOfKilledWritersOnly) {
  const test::TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    auto file = AtomicFile::create(folder.path("a"));
    ::_exit(file.has_value() ? 0 : 1);  // no destructor runs, as after kill -9
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_EQ(folder.file_count(), 1);

  auto first = AtomicFile::create(folder.path("a"));
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(folder.file_count(), 1) << "the dead child's file is gone, the new one is there";
  auto second = AtomicFile::create(folder.path("a"));
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(folder.file_count(), 2) << "a living writer's file stays";
}

TEST(AtomicFile, UnderALockOthersPartialsStay) {
  const test::TempFolder folder;
  const std::string stale = folder.path("a.partial-1-2");
  test::write_file(stale, "of a killed process");
  const auto file = AtomicFile::create_under_lock(folder.path("a"));
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(folder.file_count(), 2);
  AtomicFile::remove_stale_partials(folder.path("a"));
  EXPECT_FALSE(std::filesystem::exists(stale));
  EXPECT_EQ(folder.file_count(), 1) << "its own stays";
}

TEST(AtomicFile, AppearsWithLessFlushingToo) {
  const test::TempFolder folder;
  for (const auto flush : {AtomicFile::Flush::kFiles, AtomicFile::Flush::kNothing}) {
    auto file = AtomicFile::create(folder.path("a"));
    ASSERT_TRUE(file.has_value() && file->write(bytes_of("hello")).ok());
    ASSERT_TRUE(file->commit(flush).ok());
    EXPECT_EQ(test::read_file(folder.path("a")), "hello");
    EXPECT_EQ(folder.file_count(), 1);
  }
}

TEST(AtomicFile, CreatesMissingFolders) {
  const test::TempFolder folder;
  auto file = AtomicFile::create(folder.path("x/y/a"));
  ASSERT_TRUE(file.has_value()) << file.error().message();
  ASSERT_TRUE(file->commit().ok());
  EXPECT_TRUE(std::filesystem::exists(folder.path("x/y/a")));
}

TEST(AtomicFile, NamesTheFolderThatCannotBeCreated) {
  const test::TempFolder folder;
  test::write_file(folder.path("file"), "");
  const auto file = AtomicFile::create(folder.path("file/sub/a"));
  ASSERT_FALSE(file.has_value());
  EXPECT_NE(file.error().message().find(folder.path("file/sub")), std::string::npos)
      << file.error().message();
}

TEST(AtomicFile, RefusesAPathThatIsAFolder) {
  const test::TempFolder folder;
  EXPECT_FALSE(AtomicFile::create(folder.path()).has_value());
}

}  // namespace
}  // namespace meg
