#include "libmeg/io/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <thread>

#include "libmeg/io/file_lock.h"
#include "tests/child_process.h"
#include "tests/temp_folder.h"

namespace meg::io {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Writes `text` to a new AtomicFile at path; returns what went wrong.
std::string write_atomically(const std::string& path, std::string_view text) {
  auto file = AtomicFile::create(path);
  if (!file.has_value()) return file.error().message();
  const Status written = file->write(bytes_of(text));
  return written.ok() ? file->commit().message() : written.message();
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

TEST(AtomicFile, LeavesNoFolderThatItMade) {
  const test::TempFolder folder;
  fs::create_directory(folder.path("here"));
  {
    auto first = AtomicFile::create(folder.path("here/new/deep/a"));
    auto second = AtomicFile::create(folder.path("here/new/deep/b"));
    auto lock = FileLock::try_acquire(folder.path("here/new/deep/lock"));
    ASSERT_TRUE(first.has_value() && second.has_value() && lock.has_value());
    *first = AtomicFile();
    EXPECT_TRUE(fs::exists(folder.path("here/new/deep"))) << "the others are there";
  }
  EXPECT_TRUE(fs::is_empty(folder.path("here")));
  {
    auto first = AtomicFile::create(folder.path("here/new/a"));
    auto second = AtomicFile::create(folder.path("here/new/b"));
    ASSERT_TRUE(first.has_value() && second.has_value());
    ASSERT_TRUE(second->commit().ok());
  }
  EXPECT_TRUE(fs::exists(folder.path("here/new/b")));
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

TEST(AtomicFile, ReplacesWhatALinkNames) {
  const test::TempFolder folder;
  fs::create_directory(folder.path("disk"));
  test::write_file(folder.path("disk/file"), "old");
  fs::create_symlink("disk/file", folder.path("near"));
  fs::create_symlink(folder.path("near"), folder.path("far"));
  EXPECT_EQ(write_atomically(folder.path("far"), "new"), "");
  EXPECT_TRUE(fs::is_symlink(folder.path("far")) && fs::is_symlink(folder.path("near")));
  EXPECT_EQ(test::read_file(folder.path("disk/file")), "new");
  EXPECT_EQ(folder.file_count(), 3);
}

TEST(AtomicFile, MakesWhatALinkNamesInVain) {
  const test::TempFolder folder;
  fs::create_symlink("disk/file", folder.path("link"));
  EXPECT_EQ(write_atomically(folder.path("link"), "new"), "");
  EXPECT_TRUE(fs::is_symlink(folder.path("link")));
  EXPECT_EQ(test::read_file(folder.path("disk/file")), "new");
}

TEST(AtomicFile, RefusesLinksInACircle) {
  const test::TempFolder folder;
  fs::create_symlink("b", folder.path("a"));
  fs::create_symlink("a", folder.path("b"));
  EXPECT_EQ(write_atomically(folder.path("a"), "new"),
            folder.path("a") + ": Too many levels of symbolic links");
}

TEST(AtomicFile, WritesAPipeStraight) {
  const test::TempFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  std::string found;
  std::thread reader([&] { found = test::read_file(folder.path("pipe")); });
  EXPECT_EQ(write_atomically(folder.path("pipe"), "through"), "");
  reader.join();
  EXPECT_EQ(found, "through");
  EXPECT_TRUE(fs::is_fifo(folder.path("pipe")));
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(AtomicFile, WritesADeviceStraight) {
  const test::TempFolder folder;
  const std::string device = folder.path("null");
  if (::mknod(device.c_str(), S_IFCHR | 0600, ::makedev(1, 3)) != 0) {
    GTEST_SKIP() << "may not make devices here";
  }
  if (const int fd = ::open(device.c_str(), O_WRONLY); fd < 0) {
    GTEST_SKIP() << "may not open devices here";
  } else {
    ::close(fd);
  }
  EXPECT_EQ(write_atomically(device, "gone"), "");
  EXPECT_TRUE(fs::is_character_file(device));
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(AtomicFile, SaysWhatADeviceDoesNotTake) {
  EXPECT_EQ(write_atomically("/dev/full", "much"), "/dev/full: No space left on device");
}

TEST(AtomicFile, AppendsToTheFileOfStandardOutput) {
  const test::TempFolder folder;
  EXPECT_EQ(test::in_child([&] {
              const int fd = ::open(folder.path("log").c_str(), O_WRONLY | O_CREAT, 0600);
              ::dup2(fd, STDOUT_FILENO);
              if (::write(STDOUT_FILENO, "before ", 7) != 7) return std::string("not written");
              std::string error = write_atomically("/dev/stdout", "page ");
              if (error.empty()) error = write_atomically(folder.path("log"), "again ");
              if (::write(STDOUT_FILENO, "after", 5) != 5) return std::string("not written");
              return error;
            }),
            "");
  EXPECT_EQ(test::read_file(folder.path("log")), "before page again after");
}

TEST(AtomicFile, ARegularOneIsNoPipe) {
  const test::TempFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  const auto file = AtomicFile::create_regular(folder.path("pipe"));
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().message(),
            folder.path("pipe") + ": expected a regular file, found a pipe or a device");
}

TEST(AtomicFile, RemovesOnlyPartialsThatItNamed) {
  const test::TempFolder folder;
  for (const char* name : {"a.partial-", "a.partial-backup", "a.partial-1", "a.partial-1-x",
                           "a.partial-1-2-3", "b.partial-1-2"}) {
    test::write_file(folder.path(name), "a user's own");
  }
  test::write_file(folder.path("a.partial-1-2"), "of a killed process");
  EXPECT_EQ(write_atomically(folder.path("a"), "new"), "");
  EXPECT_EQ(folder.file_count(), 7);
  EXPECT_FALSE(fs::exists(folder.path("a.partial-1-2")));
}

TEST(AtomicFile, ASetThatIsNotPublishedWhollyLeavesNoOlderFileBesideANewOne) {
  const test::TempFolder folder;
  for (const char* name : {"a", "b", "c"}) test::write_file(folder.path(name), "old");
  auto a = AtomicFile::create(folder.path("a"));
  auto b = AtomicFile::create(folder.path("b"));
  auto c = AtomicFile::create(folder.path("c"));
  ASSERT_TRUE(a.has_value() && b.has_value() && c.has_value());
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    if (entry.path().filename().string().starts_with("b.partial-")) fs::remove(entry.path());
  }
  const std::array<AtomicFile*, 3> files = {&*a, &*b, &*c};
  EXPECT_FALSE(AtomicFile::commit_all(files).ok()) << "as if killed between the renames";
  EXPECT_EQ(test::read_file(folder.path("a")), "");
  EXPECT_FALSE(fs::exists(folder.path("b")) || fs::exists(folder.path("c")));
}

}  // namespace
}  // namespace meg::io
