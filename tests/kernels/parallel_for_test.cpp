#include "libmeg/kernels/cpu/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace meg::kernels {
namespace {

TEST(ParallelForTest, EveryElementIsTakenOnce) {
  for (const int64_t count : {0, 1, 2, 3, 7, 64, 1000}) {
    for (const int64_t grain : {1, 3, 5000}) {
      std::vector<std::atomic<int>> taken(static_cast<size_t>(count));
      parallel_for(count, grain, [&](int64_t begin, int64_t end) {
        ASSERT_LT(begin, end);
        for (int64_t i = begin; i < end; ++i) ++taken[static_cast<size_t>(i)];
      });
      for (const auto& times : taken) EXPECT_EQ(times, 1) << count << " by " << grain;
    }
  }
}

TEST(ParallelForTest, UsesTheProcessors) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  parallel_for(1000, 1, [&](int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  if (std::thread::hardware_concurrency() == 1 || std::getenv("OMP_NUM_THREADS") != nullptr) {
    GTEST_SKIP() << "one thread here";
  }
  EXPECT_GT(threads.size(), 1);
}

TEST(ParallelForTest, RunsAPlainLoopWhenNested) {
  std::atomic<int64_t> sum = 0;
  parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto thread = std::this_thread::get_id();
      parallel_for(100, 1, [&](int64_t from, int64_t to) {
        if (std::this_thread::get_id() == thread) sum += to - from;
      });
    }
  });
  EXPECT_EQ(sum, 800);
}

TEST(ParallelForTest, ExceptionsComeOut) {
  EXPECT_THROW(parallel_for(100, 1, [](int64_t, int64_t) { throw std::runtime_error("no"); }),
               std::runtime_error);
}

}  // namespace
}  // namespace meg::kernels
