#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "tests/temp_folder.h"

namespace meg::test {

/// A fresh folder that all ranks of a test share; to be made before launched_ranks(), removed by
/// the launcher.
class CommonFolder {
 public:
  CommonFolder() {
    if (const char* const common = std::getenv(kVariable)) {
      path_ = common;
      return;
    }
    own_.emplace();
    path_ = own_->path();
    ::setenv(kVariable, path_.c_str(), /*overwrite=*/1);
  }

  CommonFolder(const CommonFolder&) = delete;
  CommonFolder& operator=(const CommonFolder&) = delete;

  ~CommonFolder() {
    if (own_.has_value()) ::unsetenv(kVariable);
  }

  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  static constexpr const char* kVariable = "MEG_TEST_COMMON_FOLDER";

  std::optional<TempFolder> own_;
  std::string path_;
};

/// What torchrun sets.
inline void set_rank(int rank, int ranks, uint16_t port) {
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), /*overwrite=*/1);
  };
  set("RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(ranks));
  set("LOCAL_RANK", std::to_string(rank));
  set("LOCAL_WORLD_SIZE", std::to_string(ranks));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(port));
  set("TORCHELASTIC_USE_AGENT_STORE", "True");
  set("OMP_NUM_THREADS", "1");
}

/// The process of one rank, which runs the test that is running here; it dies with this process.
inline pid_t start_rank(int rank, int ranks, uint16_t port) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter =
      std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_rank(rank, ranks, port);
  ::execl("/proc/self/exe", "/proc/self/exe", filter.c_str(), nullptr);
  ::_exit(127);
}

/// `if (launched_ranks(2)) return;` at the beginning of a test runs the rest of it on two ranks,
/// each a process of its own, and fails where one of them fails. False on the ranks themselves.
inline bool launched_ranks(int ranks) {
  if (std::getenv("RANK") != nullptr) return false;
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(start_rank(rank, ranks, store->getPort()));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int status = -1;
    ::waitpid(children[static_cast<size_t>(rank)], &status, 0);
    EXPECT_EQ(status, 0) << "rank " << rank;
  }
  return true;
}

}  // namespace meg::test
