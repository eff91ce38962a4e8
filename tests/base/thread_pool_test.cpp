#include "libmeg/base/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>

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

TEST(ThreadPool, WaitThrowsWhatATaskThrew) {
  ThreadPool pool(2);
  std::atomic<int> done = 0;
  for (int i = 0; i < 10; ++i) {
    pool.submit([&done, i] {
      ++done;
      if (i == 4) throw std::bad_alloc();
    });
  }
  EXPECT_THROW(pool.wait(), std::bad_alloc);
  EXPECT_EQ(done.load(), 10) << "the rest is done all the same";
  pool.submit([&done] { ++done; });
  pool.wait();
  EXPECT_EQ(done.load(), 11);
}

TEST(ThreadPool, DoesItsWorkWhereNoThreadCanBeStarted) {
  pthread_attr_t usual, impossible;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&impossible), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&impossible, size_t{1} << 47), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&impossible), 0);
  {
    ThreadPool pool(4);
    EXPECT_EQ(pool.threads(), 1);
    int done = 0;
    for (int i = 0; i < 10; ++i) pool.submit([&done] { ++done; });
    pool.wait();
    EXPECT_EQ(done, 10);
  }
  ::pthread_setattr_default_np(&usual);
}

}  // namespace
}  // namespace meg
