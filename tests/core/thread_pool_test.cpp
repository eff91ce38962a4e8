#include "libmeg/core/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>

namespace meg {
namespace {

TEST(ThreadPool, WaitReturnsAfterEveryTask) {
  ThreadPool pool(4);
  std::atomic<int> sum = 0;
  for (int i = 1; i <= 1000; ++i) pool.submit([&sum, i] { sum += i; });
  pool.wait();
  EXPECT_EQ(sum.load(), 500500);
}

TEST(ThreadPool, DestructorRunsWhatWasSubmitted) {
  std::atomic<int> done = 0;
  {
    ThreadPool pool(2);
    for (int i = 0; i < 100; ++i) pool.submit([&done] { ++done; });
  }
  EXPECT_EQ(done.load(), 100);
}

}  // namespace
}  // namespace meg
