#pragma once

#include <algorithm>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "libmeg/base/condition_variable.h"

namespace meg {

/// A fixed number of threads that run submitted tasks in the order of submission. What a task
/// throws (std::bad_alloc) is rethrown by wait().
class ThreadPool {
 public:
  /// threads: at least 1. If the system refuses to create some, the others do the work; if it
  /// refuses all, submit() does the work.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Waits for every submitted task. Exceptions are lost unless wait() was called before.
  ~ThreadPool();

  /// That run tasks; at least 1.
  int threads() const { return std::max(static_cast<int>(threads_.size()), 1); }

  void submit(std::function<void()> task);

  /// Returns when every task submitted so far has ended; rethrows the first exception of a task
  /// since the last call.
  void wait();

 private:
  void run();
  void run_task(const std::function<void()>& task);

  std::mutex mutex_;
  std::condition_variable task_ready_;
  std::condition_variable all_done_;
  std::deque<std::function<void()>> tasks_;
  int running_ = 0;
  bool stopping_ = false;
  std::exception_ptr thrown_;  // by the first task that did
  std::vector<std::thread> threads_;
};

/// Processors this process may run on (its affinity mask); at least 1.
int available_processors();

}  // namespace meg
