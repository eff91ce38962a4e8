#include "libmeg/io/atomic_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/small_filesystem.h"
#include "tests/temp_folder.h"

namespace meg::io {
namespace {

namespace fs = std::filesystem;

/// Stages a folder with rank/file of this content.
Result<AtomicFolder> staged(const std::string& path, std::string_view content) {
  auto folder = AtomicFolder::create(path);
  if (!folder.has_value()) return folder;
  fs::create_directory(folder->staging_path() + "/rank");
  test::write_file(folder->staging_path() + "/rank/file", content);
  return folder;
}

/// Runs `body` in a child that is then killed as by kill -9: no destructor runs.
template <class Body>
void run_and_kill(const Body& body) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    const char done = 1;
    if (::write(ready[1], &done, 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char done = 0;
  EXPECT_EQ(::read(ready[0], &done, 1), 1);
  ::kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(AtomicFolder, AppearsOnlyAtCommit) {
  const test::TempFolder folder;
  auto atomic = staged(folder.path("iter"), "new");
  ASSERT_TRUE(atomic.has_value()) << atomic.error().message();
  EXPECT_FALSE(fs::exists(folder.path("iter")));
  const Status committed = atomic->commit();
  ASSERT_TRUE(committed.ok()) << committed.message();
  EXPECT_EQ(test::read_file(folder.path("iter/rank/file")), "new");
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(AtomicFolder, LeavesNothingWithoutCommit) {
  const test::TempFolder folder;
  ASSERT_TRUE(staged(folder.path("iter"), "old")->commit().ok());
  ASSERT_TRUE(staged(folder.path("iter"), "new").has_value());
  EXPECT_EQ(test::read_file(folder.path("iter/rank/file")), "old");
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(AtomicFolder, LeavesNoFolderAboveThatItMade) {
  const test::TempFolder folder;
  fs::create_directory(folder.path("here"));
  for (const char* name : {"a/b/c/target", "here/b//target/", "here/target"}) {
    const auto made = AtomicFolder::create(folder.path(name));
    ASSERT_TRUE(made.has_value()) << made.error().message();
  }
  EXPECT_FALSE(fs::exists(folder.path("a")));
  EXPECT_TRUE(fs::is_empty(folder.path("here")));
  {
    const auto made = AtomicFolder::create(folder.path("a/b/target"));
    ASSERT_TRUE(made.has_value()) << made.error().message();
    fs::create_directory(folder.path("a/other"));
  }
  EXPECT_TRUE(fs::exists(folder.path("a/other")));
  EXPECT_FALSE(fs::exists(folder.path("a/b")));
}

TEST(AtomicFolder, ReplacesAnOlderFolderWholly) {
  const test::TempFolder folder;
  fs::create_directories(folder.path("iter/other"));
  test::write_file(folder.path("iter/other/file"), "old");
  auto atomic = staged(folder.path("iter"), "new");
  ASSERT_TRUE(atomic.has_value());
  const Status committed = atomic->commit();
  ASSERT_TRUE(committed.ok()) << committed.message();
  EXPECT_EQ(test::read_file(folder.path("iter/rank/file")), "new");
  EXPECT_FALSE(fs::exists(folder.path("iter/other")));
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(AtomicFolder, KillLeavesTheOldOneAndTheNextCreateCleansUp) {
  const test::TempFolder folder;
  ASSERT_TRUE(staged(folder.path("iter"), "old")->commit().ok());
  run_and_kill([&] { static auto atomic = staged(folder.path("iter"), "half"); });
  EXPECT_EQ(test::read_file(folder.path("iter/rank/file")), "old");
  ASSERT_EQ(folder.file_count(), 2);

  auto first = AtomicFolder::create(folder.path("iter"));
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(folder.file_count(), 2) << "the dead child's folder is gone, the new one is there";
  EXPECT_FALSE(fs::exists(first->staging_path() + "/rank"));
  auto second = AtomicFolder::create(folder.path("iter"));
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(folder.file_count(), 3) << "a living writer's folder stays";
}

TEST(AtomicFolder, RemovesOnlyFoldersThatItNamed) {
  const test::TempFolder folder;
  for (const char* name : {"iter.partial-", "iter.partial-1", "iter.partial-1-x",
                           "iter.partial-1-2-3", "iter.partial-a-1", "other.partial-1-1"}) {
    fs::create_directory(folder.path(name));
  }
  test::write_file(folder.path("iter.partial-1-1"), "a file");
  fs::create_directory(folder.path("elsewhere"));
  fs::create_directory_symlink(folder.path("elsewhere"), folder.path("iter.partial-1-2"));
  const auto atomic = AtomicFolder::create(folder.path("iter"));
  ASSERT_TRUE(atomic.has_value());
  EXPECT_EQ(folder.file_count(), 10);
}

TEST(AtomicFolder, ReplacesALinkWithoutTouchingWhatItNames) {
  const test::TempFolder folder;
  fs::create_directory(folder.path("elsewhere"));
  test::write_file(folder.path("elsewhere/file"), "kept");
  fs::create_directory_symlink(folder.path("elsewhere"), folder.path("iter"));
  auto atomic = staged(folder.path("iter"), "new");
  ASSERT_TRUE(atomic.has_value());
  ASSERT_TRUE(atomic->commit().ok());
  EXPECT_FALSE(fs::is_symlink(folder.path("iter")));
  EXPECT_EQ(test::read_file(folder.path("iter/rank/file")), "new");
  EXPECT_EQ(test::read_file(folder.path("elsewhere/file")), "kept");
  EXPECT_EQ(folder.file_count(), 2);
}

TEST(AtomicFolder, AppearsThroughALinkToTheFolderAbove) {
  const test::TempFolder folder;
  fs::create_directory(folder.path("disk"));
  fs::create_directory_symlink("disk", folder.path("save"));
  for (const char* content : {"first", "second"}) {
    auto atomic = staged(folder.path("save/iter"), content);
    ASSERT_TRUE(atomic.has_value()) << atomic.error().message();
    const Status committed = atomic->commit();
    ASSERT_TRUE(committed.ok()) << committed.message();
    EXPECT_EQ(test::read_file(folder.path("disk/iter/rank/file")), content);
  }
  EXPECT_TRUE(fs::is_symlink(folder.path("save")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path("disk")), {}), 1);
}

TEST(AtomicFolder, TakesTrailingSlashesAndCreatesMissingFolders) {
  const test::TempFolder folder;
  auto atomic = staged(folder.path("x/y/iter//"), "new");
  ASSERT_TRUE(atomic.has_value()) << atomic.error().message();
  ASSERT_TRUE(atomic->commit().ok());
  EXPECT_EQ(test::read_file(folder.path("x/y/iter/rank/file")), "new");
}

TEST(AtomicFolder, NamesWhatCannotBeCreated) {
  const test::TempFolder folder;
  test::write_file(folder.path("file"), "");
  const auto below = AtomicFolder::create(folder.path("file/sub/iter"));
  ASSERT_FALSE(below.has_value());
  EXPECT_NE(below.error().message().find(folder.path("file/sub")), std::string::npos);
  const auto on_file = AtomicFolder::create(folder.path("file"));
  ASSERT_FALSE(on_file.has_value());
  EXPECT_EQ(on_file.error().message(), folder.path("file") + ": Not a directory");
  EXPECT_EQ(AtomicFolder::create("").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(AtomicFolder, MovedFromObjectsRemoveNothing) {
  const test::TempFolder folder;
  auto made = staged(folder.path("iter"), "new");
  ASSERT_TRUE(made.has_value());
  AtomicFolder kept;
  {
    AtomicFolder moved = std::move(*made);
    kept = std::move(moved);
  }
  ASSERT_TRUE(kept.commit().ok());
  EXPECT_EQ(test::read_file(folder.path("iter/rank/file")), "new");
}

TEST(AtomicFolder, ReadOnlyFilesystemIsNamed) {
  const test::TempFolder folder;
  const bool ran = test::in_small_filesystem(folder.path(), "size=1m", [&]() -> std::string {
    ::mount("none", folder.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, "size=1m");
    const auto atomic = AtomicFolder::create(folder.path("iter"));
    if (atomic.has_value()) return "created";
    const std::string expected = "cannot create " + folder.path("iter") + ": Read-only file system";
    return atomic.error().message() == expected ? "" : atomic.error().message();
  });
  if (!ran) GTEST_SKIP() << "may not mount a filesystem here";
}

TEST(AtomicFolder, FullFilesystemIsNamedAndLeavesTheOldOne) {
  const test::TempFolder folder;
  // A tmpfs of few inodes is full before a folder is made.
  const bool ran = test::in_small_filesystem(folder.path(), "nr_inodes=4", [&]() -> std::string {
    if (!staged(folder.path("iter"), "old")->commit().ok()) return "first commit failed";
    const auto atomic = AtomicFolder::create(folder.path("iter"));
    if (atomic.has_value()) return "created";
    if (atomic.error().code() != StatusCode::kResourceExhausted) return atomic.error().message();
    return test::read_file(folder.path("iter/rank/file")) == "old" ? "" : "old one is gone";
  });
  if (!ran) GTEST_SKIP() << "may not mount a filesystem here";
}

}  // namespace
}  // namespace meg::io
