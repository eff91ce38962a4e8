// Many processes at once, killed processes, folders that cannot be written and full disks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "tests/child_process.h"
#include "tests/samples/cache/cache_fixture.h"
#include "tests/small_filesystem.h"

namespace meg::samples {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr char kHint[] = "give a writable folder with `data_cache_path`";

class GptIndexCacheProcesses : public test::CacheTest {
 protected:
  /// Large enough that processes meet.
  void use_large_dataset() {
    std::vector<int32_t> lengths;
    for (int i = 0; i < 20'000; ++i) lengths.push_back(i % 23);
    test::write_dataset(prefix_, lengths);
    open_dataset();
    request_.range = {.begin = 0, .end = 20'000};
    request_.samples = 200'000;
    request_.sequence_length = 8;
  }

  pid_t start_opening() const {
    const pid_t child = ::fork();
    if (child != 0) return child;
    const auto cache = open_cache();
    ::_exit(cache.has_value() ? static_cast<int>(cache->outcome) : 100);
  }

  /// "opened", or the error.
  std::string opening_says() const {
    const auto cache = open_cache();
    return cache.has_value() ? "opened" : cache.error().message();
  }

  /// Their names, one a line, wherever they lie below.
  static std::string files_in(const std::string& folder) {
    std::string found;
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
      if (!entry.is_directory()) found += entry.path().string() + "\n";
    }
    return found;
  }
};

TEST_F(GptIndexCacheProcesses, OneBuildsTheOthersWaitAndLoad) {
  use_large_dataset();
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) children.push_back(start_opening());
  std::vector<int> outcomes(101);
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ++outcomes[static_cast<size_t>(WEXITSTATUS(status))];
  }
  EXPECT_EQ(outcomes[static_cast<size_t>(CacheOutcome::kBuilt)], 1);
  EXPECT_EQ(outcomes[static_cast<size_t>(CacheOutcome::kFound)], 7);
  EXPECT_EQ(contents().size(), 5u) << "no lock and no partial file is left";
}

TEST_F(GptIndexCacheProcesses, OneRebuildsTheOthersWaitAndLoad) {
  use_large_dataset();
  expect_outcome(CacheOutcome::kBuilt);
  const auto whole = contents();
  test::write_file(files().description, "another");
  std::vector<int> outcomes(3);
  std::vector<std::thread> threads;
  std::mutex mutex;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto cache = open_cache();
      const std::lock_guard guard(mutex);
      if (cache.has_value()) ++outcomes[static_cast<size_t>(cache->outcome)];
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(outcomes[static_cast<size_t>(CacheOutcome::kRebuilt)], 1);
  EXPECT_EQ(outcomes[static_cast<size_t>(CacheOutcome::kFound)], 7);
  EXPECT_EQ(contents().size(), whole.size());
}

TEST_F(GptIndexCacheProcesses, AKilledBuilderLeavesNothingThatIsTakenForWhole) {
  use_large_dataset();
  expect_outcome(CacheOutcome::kBuilt);
  fs::remove(files().sidecar);
  const auto whole = contents();
  using Clock = std::chrono::steady_clock;
  Clock::duration build_time{};
  for (int round = 0; round < 24; ++round) {
    // Work by turns on an empty place and over a cache that cannot be used.
    if (round % 2 == 0) {
      fs::remove_all(cache_);
    } else {
      test::write_file(files().indices.sample_index, "damaged");
    }
    const auto start = Clock::now();
    const pid_t child = start_opening();
    if (round > 0) {
      std::this_thread::sleep_for(build_time * round / 24);
      ::kill(child, SIGKILL);
    }
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    if (round == 0) build_time = Clock::now() - start;
    const auto cache = open_cache();
    ASSERT_TRUE(cache.has_value()) << cache.error().message();
    fs::remove(files().sidecar);
    // Where it was killed over the sidecar, the rest is whole and nobody builds.
    auto found = contents();
    std::erase_if(found, [](const auto& file) {
      return file.first.find("-libmeg.json.partial-") != std::string::npos;
    });
    EXPECT_TRUE(found == whole) << "round " << round;
  }
}

TEST_F(GptIndexCacheProcesses, TakesOverTheLockOfAKilledProcess) {
  expect_outcome(CacheOutcome::kBuilt);
  const auto whole = contents();
  fs::remove(files().description);
  test::write_file(files().sidecar + ".lock", "");
  expect_outcome(CacheOutcome::kRebuilt);
  EXPECT_EQ(contents().size(), whole.size());
}

TEST_F(GptIndexCacheProcesses, AFolderThatCannotBeCreatedIsNamed) {
  test::write_file(folder_.path("file"), "");
  request_.places = {test::core_files(folder_.path("file/cache"), "abc")};
  const auto cache = open_cache();
  ASSERT_FALSE(cache.has_value());
  EXPECT_EQ(cache.error().code(), StatusCode::kIoError);
  EXPECT_THAT(cache.error().message(), HasSubstr(folder_.path("file/cache") + ": "));
  EXPECT_THAT(cache.error().message(), HasSubstr(kHint));
}

TEST_F(GptIndexCacheProcesses, NamesTheMissingRightToWrite) {
  expect_outcome(CacheOutcome::kBuilt);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  const std::string empty = folder_.path("empty");
  fs::create_directory(empty);
  const std::string found = test::in_child([&]() -> std::string {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) return "cannot be another user";
    if (::geteuid() != 65534) ::chmod(cache_.c_str(), 0555);
    const std::string first = opening_says();
    request_.places = {test::core_files(empty, "abc")};
    if (::geteuid() != 65534) ::chmod(empty.c_str(), 0555);
    return first + "; " + opening_says();
  });
  EXPECT_TRUE(found.starts_with("opened; ")) << found << ": a whole cache needs no writing";
  EXPECT_THAT(found, HasSubstr(empty + ": cannot write the index cache"));
  EXPECT_THAT(found, HasSubstr("Permission denied"));
  EXPECT_THAT(found, HasSubstr(kHint));
}

TEST_F(GptIndexCacheProcesses, ReadOnlyFileSystemsAreReadOnly) {
  const std::string at = folder_.path("mounted");
  fs::create_directory(at);
  const bool mounted = test::in_small_filesystem(at, "size=4m", [&]() -> std::string {
    request_.places = {test::core_files(at + "/cache", "abc")};
    if (opening_says() != "opened") return opening_says();
    // Touched data: the sidecar would be refreshed.
    fs::last_write_time(prefix_ + ".idx", fs::file_time_type::clock::now() - std::chrono::hours(1));
    if (::mount(nullptr, at.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
      return "cannot remount";
    }
    if (opening_says() != "opened") return "read-only: " + opening_says();
    request_.places = {test::core_files(at + "/cache", "abd")};
    const std::string error = opening_says();
    const bool is_told =
        error.starts_with(at + "/cache: cannot write the index cache") && error.ends_with(kHint);
    if (!is_told) return "without a cache: " + error;
    request_.places = {test::core_files(at + "/cache", "abc")};
    request_.seed = 1;
    request_.extra_token = false;
    const std::string unusable = opening_says();
    return unusable.find("cannot be used: ") == std::string::npos ? unusable : "";
  });
  if (!mounted) GTEST_SKIP() << "this process may not mount";
}

TEST_F(GptIndexCacheProcesses, AFullDiskIsAnErrorAndLeavesNothing) {
  use_large_dataset();
  const std::string at = folder_.path("mounted");
  fs::create_directory(at);
  const bool mounted = test::in_small_filesystem(at, "size=1m", [&]() -> std::string {
    request_.places = {test::core_files(at + "/cache", "abc")};
    const auto cache = open_cache();
    if (cache.has_value()) return "opened";
    if (cache.error().code() != StatusCode::kResourceExhausted) return cache.error().message();
    if (cache.error().message().find("No space left") == std::string::npos) {
      return cache.error().message();
    }
    return files_in(at);
  });
  if (!mounted) GTEST_SKIP() << "this process may not mount";
}

TEST_F(GptIndexCacheProcesses, NoFileOutgrowsItsLimitUnnoticed) {
  use_large_dataset();
  const std::string found = test::in_child([&]() -> std::string {
    ::signal(SIGXFSZ, SIG_IGN);
    // The document index and the description fit, the sample index does not, and so on.
    for (const rlim_t limit : {rlim_t{0}, rlim_t{100}, rlim_t{100'000}, rlim_t{1'000'000}}) {
      const rlimit size{.rlim_cur = limit, .rlim_max = RLIM_INFINITY};
      ::setrlimit(RLIMIT_FSIZE, &size);
      const auto cache = open_cache();
      if (cache.has_value()) return "opened";
      if (cache.error().code() != StatusCode::kResourceExhausted) return cache.error().message();
      const std::string left = files_in(cache_);
      if (!left.empty()) return left;
    }
    return "";
  });
  EXPECT_EQ(found, "");
  expect_outcome(CacheOutcome::kBuilt);
}

}  // namespace
}  // namespace meg::samples
