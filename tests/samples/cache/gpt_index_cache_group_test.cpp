// Caches that are brought to the device together: in which order, and which files remain where that
// ends early. fsync and rename of this program are those below.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <mutex>
#include <set>

#include "tests/child_process.h"
#include "tests/samples/cache/cache_fixture.h"

namespace {

/// What the calls did, and what is to become of them.
struct Calls {
  std::mutex mutex;
  std::set<ino_t> flushed;
  std::vector<std::string> renamed;                      // the new names
  std::vector<std::string> renamed_unflushed;            // as above
  std::function<int()> before_flush = [] { return 0; };  // errno, 0: none
  std::function<void()> before_rename = [] {};
};

Calls* calls = nullptr;

ino_t inode_of(const char* path) {
  struct stat info {};

  return ::stat(path, &info) == 0 ? info.st_ino : 0;
}

}  // namespace

extern "C" int fsync(int fd) {
  struct stat info {};

  if (calls == nullptr) return static_cast<int>(::syscall(SYS_fsync, fd));
  if (::fstat(fd, &info) != 0) return -1;
  const std::lock_guard lock(calls->mutex);
  errno = calls->before_flush();
  if (errno == 0) calls->flushed.insert(info.st_ino);
  return errno == 0 ? 0 : -1;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (calls != nullptr) {
    calls->before_rename();
    calls->renamed.emplace_back(to);
    if (!calls->flushed.contains(inode_of(from))) calls->renamed_unflushed.emplace_back(to);
  }
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

namespace meg::samples {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::EndsWith;

class GptIndexCacheGroupTest : public test::CacheTest {
 protected:
  static constexpr int kCaches = 5;

  void SetUp() override {
    CacheTest::SetUp();
    calls = &calls_;
  }

  void TearDown() override { calls = nullptr; }

  /// Returns the request of the dataset that is number `number` in its folder.
  GptIndexCacheRequest request(int number) const {
    GptIndexCacheRequest request = request_;
    request.seed = static_cast<uint32_t>(number);
    request.description = "number " + std::to_string(number);
    request.places = {test::core_files(cache_, io::md5_hex(request.description))};
    return request;
  }

  /// Opens the caches in this order; what each came to: "found", "built", "rebuilt" or the error.
  std::vector<std::string> open_caches(const std::vector<int>& numbers) const {
    std::vector<std::string> outcomes(numbers.size(), "not taken");
    GptIndexCacheGroup group;
    for (size_t i = 0; i < numbers.size(); ++i) {
      group.open(request(numbers[i]), megatron::newest_megatron_version(),
                 [&outcome = outcomes[i]](const Result<GptIndexCache>& cache) {
                   constexpr const char* kNames[] = {"found", "built", "rebuilt"};
                   outcome = cache.has_value() ? kNames[static_cast<int>(cache->outcome)]
                                               : cache.error().message();
                 });
    }
    group.commit();
    return outcomes;
  }

  static std::vector<int> all() { return numbers_to(kCaches); }

  static std::vector<int> numbers_to(int count) {
    std::vector<int> numbers;
    for (int i = 0; i < count; ++i) numbers.push_back(i);
    return numbers;
  }

  Calls calls_;
};

TEST_F(GptIndexCacheGroupTest, NothingAppearsBeforeAllOfTheGroupIsFlushed) {
  size_t flushed_at_first_rename = 0;
  calls_.before_rename = [&] {
    if (calls_.renamed.empty()) flushed_at_first_rename = calls_.flushed.size();
  };
  EXPECT_THAT(open_caches(all()), Each("built"));
  EXPECT_EQ(flushed_at_first_rename, 4u * kCaches);
  EXPECT_EQ(calls_.renamed.size(), 5u * kCaches);
  EXPECT_EQ(calls_.renamed_unflushed.size(), 1u * kCaches);
  EXPECT_THAT(calls_.renamed_unflushed, Each(EndsWith("-libmeg.json")));
  for (int i = 0; i < kCaches; ++i) {
    // What Megatron looks for first comes when the rest is there, the sidecar after all.
    EXPECT_THAT(calls_.renamed[static_cast<size_t>(5 * i + 3)], EndsWith("description.txt"));
    EXPECT_THAT(calls_.renamed[static_cast<size_t>(5 * i + 4)], EndsWith("-libmeg.json"));
  }
}

TEST_F(GptIndexCacheGroupTest, OpensWhatItBuilt) {
  EXPECT_THAT(open_caches(all()), Each("built"));
  const auto whole = contents();
  EXPECT_EQ(whole.size(), 5u * kCaches) << "no lock and no partial file is left";
  calls_.renamed.clear();
  EXPECT_THAT(open_caches(all()), Each("found"));
  EXPECT_TRUE(calls_.renamed.empty());
  for (int i = 0; i < kCaches; ++i) {
    fs::remove_all(cache_);
    const auto alone = open_gpt_index_cache(request(i), megatron::newest_megatron_version());
    ASSERT_TRUE(alone.has_value()) << alone.error().message();
    for (const auto& [name, bytes] : contents()) {
      if (name.ends_with("-libmeg.json")) continue;  // bears the time of the data
      EXPECT_TRUE(whole.at(name) == bytes) << name;
    }
  }
}

TEST_F(GptIndexCacheGroupTest, OneThatIsAskedForTwiceIsBuiltOnce) {
  EXPECT_EQ(open_caches({0, 1, 0}), (std::vector<std::string>{"built", "built", "found"}));
}

TEST_F(GptIndexCacheGroupTest, WhatIsNotCommittedIsNotThere) {
  {
    GptIndexCacheGroup group;
    group.open(request(0), megatron::newest_megatron_version(),
               [](const Result<GptIndexCache>&) { FAIL(); });
    EXPECT_FALSE(contents().empty());
  }
  EXPECT_TRUE(contents().empty());
}

TEST_F(GptIndexCacheGroupTest, AFlushThatFailsLeavesNothing) {
  for (int failing = 0; failing < 4 * kCaches; ++failing) {
    int flushes = 0;
    calls_.before_flush = [&] { return flushes++ == failing ? EIO : 0; };
    EXPECT_THAT(open_caches(all()), Each(testing::HasSubstr("Input/output error")));
    EXPECT_TRUE(contents().empty()) << failing;
  }
  calls_.before_flush = [] { return 0; };
  EXPECT_THAT(open_caches(all()), Each("built"));
}

TEST_F(GptIndexCacheGroupTest, AKillAtAnyRenameLeavesWholeOrRebuildableCaches) {
  EXPECT_THAT(open_caches(all()), Each("built"));
  auto whole = contents();
  std::erase_if(whole, [](const auto& file) { return file.first.ends_with("-libmeg.json"); });
  for (int last = 0; last <= 5 * kCaches; ++last) {
    // Work by turns on an empty place and over caches that cannot be used.
    if (last % 2 == 0) fs::remove_all(cache_);
    for (int i = 0; last % 2 == 1 && i < kCaches; ++i) {
      test::write_file(request(i).places[0].indices.sample_index, "damaged");
    }
    const pid_t child = ::fork();
    if (child == 0) {
      int renames = 0;
      calls_.before_rename = [&] {
        if (renames++ == last) ::_exit(0);  // no destructor runs, as after kill -9
      };
      ::_exit(open_caches(all()).size() == kCaches ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    const std::vector<std::string> outcomes = open_caches(all());
    // The fourth of each five renames makes a cache whole.
    EXPECT_EQ(std::ranges::count(outcomes, "found"), (last + 1) / 5) << last;
    auto found = contents();
    for (const auto& [name, bytes] : whole) EXPECT_TRUE(found[name] == bytes) << last << name;
    std::erase_if(found, [](const auto& file) { return file.first.ends_with("-libmeg.json"); });
    EXPECT_LE(found.size(), whole.size() + 1) << "apart from one sidecar's partial file";
  }
}

TEST_F(GptIndexCacheGroupTest, ProcessesThatWantTheSameInOtherOrdersDoNotWaitForEachOther) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::vector<int> numbers = numbers_to(40);
      std::ranges::rotate(numbers, numbers.begin() + 10 * i);
      if (i % 2 == 1) std::ranges::reverse(numbers);
      const auto outcomes = open_caches(numbers);
      ::_exit(std::ranges::all_of(outcomes,
                                  [](const std::string& outcome) {
                                    return outcome == "built" || outcome == "found";
                                  })
                  ? 0
                  : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(contents().size(), 40u * 5u);
}

TEST_F(GptIndexCacheGroupTest, ItKeepsToTheLimitOfOpenFiles) {
  const std::string found = test::in_child([&]() -> std::string {
    const rlimit few{.rlim_cur = 40, .rlim_max = 40};
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (const std::string& outcome : open_caches(numbers_to(50))) {
      if (outcome != "built") return outcome;
    }
    return "";
  });
  EXPECT_EQ(found, "");
}

}  // namespace
}  // namespace meg::samples
