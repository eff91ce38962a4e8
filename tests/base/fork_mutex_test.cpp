#include "libmeg/base/fork_mutex.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <thread>

namespace meg {
namespace {

TEST(ForkMutex, IsFreeInTheChildOfAForkWhileAThreadHoldsIt) {
  std::promise<void> held;
  std::thread thread([&] {
    const std::lock_guard lock(fork_mutex());
    held.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  held.get_future().wait();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(fork_mutex().try_lock() ? 0 : 1);
  thread.join();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fork_mutex().try_lock());
  fork_mutex().unlock();
}

}  // namespace
}  // namespace meg
