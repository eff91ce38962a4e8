#include "libmeg/io/file_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/temp_folder.h"

namespace meg::io {
namespace {

TEST(FileLock, TheFileGoesWithTheLock) {
  const test::TempFolder folder;
  {
    const auto lock = FileLock::acquire(folder.path("a/b/lock"));
    ASSERT_TRUE(lock.has_value()) << lock.error().message();
    EXPECT_TRUE(std::filesystem::exists(folder.path("a/b/lock")));
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path("a/b/lock")));
}

TEST(FileLock, MovingKeepsIt) {
  const test::TempFolder folder;
  FileLock outer;
  {
    auto lock = FileLock::acquire(folder.path("lock"));
    ASSERT_TRUE(lock.has_value());
    outer = std::move(*lock);
  }
  EXPECT_EQ(folder.file_count(), 1);
  outer = FileLock();
  EXPECT_EQ(folder.file_count(), 0);
}

TEST(FileLock, OnlyOneThreadHoldsIt) {
  const test::TempFolder folder;
  std::atomic<int> inside = 0, rounds = 0, collisions = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        const auto lock = FileLock::acquire(folder.path("lock"));
        if (!lock.has_value() || ++inside != 1) ++collisions;
        ++rounds;
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(rounds, 800);
  EXPECT_EQ(collisions, 0);
  EXPECT_EQ(folder.file_count(), 0);
}

TEST(FileLock, OnlyOneProcessHoldsIt) {
  const test::TempFolder folder;
  test::write_file(folder.path("counter"), "0");
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    for (int round = 0; round < 50; ++round) {
      const auto lock = FileLock::acquire(folder.path("lock"));
      if (!lock.has_value()) ::_exit(1);
      // Without the lock, two of them would count from the same number.
      const int count = std::stoi(test::read_file(folder.path("counter")));
      test::write_file(folder.path("counter"), std::to_string(count + 1));
    }
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(test::read_file(folder.path("counter")), "200");
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(FileLock, AKilledHolderLetsItGo) {
  const test::TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = FileLock::acquire(folder.path("lock"));
    test::write_file(folder.path("held"), "");
    while (true) ::pause();
  }
  while (!std::filesystem::exists(folder.path("held"))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(std::filesystem::exists(folder.path("lock"))) << "nobody could remove it";
  ASSERT_TRUE(FileLock::acquire(folder.path("lock")).has_value());
  EXPECT_FALSE(std::filesystem::exists(folder.path("lock")));
}

TEST(FileLock, OnlyAnAbandonedFileIsRemoved) {
  const test::TempFolder folder;
  FileLock::remove_abandoned(folder.path("lock"));
  {
    const auto lock = FileLock::acquire(folder.path("lock"));
    ASSERT_TRUE(lock.has_value());
    FileLock::remove_abandoned(folder.path("lock"));
    EXPECT_EQ(folder.file_count(), 1);
  }
  test::write_file(folder.path("lock"), "");
  FileLock::remove_abandoned(folder.path("lock"));
  EXPECT_EQ(folder.file_count(), 0);
}

TEST(FileLock, TryingNeverWaits) {
  const test::TempFolder folder;
  auto held = FileLock::try_acquire(folder.path("lock"));
  ASSERT_TRUE(held.has_value() && held->has_value());
  const auto second = FileLock::try_acquire(folder.path("lock"));
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(second->has_value());
  *held = FileLock();
  const auto third = FileLock::try_acquire(folder.path("lock"));
  EXPECT_TRUE(third.has_value() && third->has_value());
}

TEST(FileLock, WhoWaitsIsAskedAndMayGiveUp) {
  const test::TempFolder folder;
  const auto held = FileLock::acquire(folder.path("lock"));
  ASSERT_TRUE(held.has_value());
  int asked = 0;
  const auto waited = FileLock::acquire(folder.path("lock"), [&asked] { return ++asked < 3; });
  EXPECT_EQ(waited.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(asked, 3);
  EXPECT_TRUE(std::filesystem::exists(folder.path("lock"))) << "it is still held";
}

TEST(FileLock, WhoWaitsGetsItWhenItIsFree) {
  const test::TempFolder folder;
  auto held = FileLock::acquire(folder.path("lock"));
  ASSERT_TRUE(held.has_value());
  const auto waited = FileLock::acquire(folder.path("lock"), [&held] {
    *held = FileLock();
    return true;
  });
  EXPECT_TRUE(waited.has_value());
}

TEST(FileLock, SaysWhatCannotBeCreated) {
  const test::TempFolder folder;
  test::write_file(folder.path("file"), "");
  const auto below = FileLock::acquire(folder.path("file/sub/lock"));
  ASSERT_FALSE(below.has_value());
  EXPECT_NE(below.error().message().find(folder.path("file/sub")), std::string::npos)
      << below.error().message();
  std::filesystem::create_symlink(folder.path("file"), folder.path("link"));
  EXPECT_FALSE(FileLock::acquire(folder.path("link")).has_value()) << "links are not followed";
}

}  // namespace
}  // namespace meg::io
