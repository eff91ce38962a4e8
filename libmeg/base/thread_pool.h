#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace meg {

/// A fixed number of threads that run submitted tasks in the order of submission. What a task
/// throws (std::bad_alloc) is rethrown by wait().
class ThreadPool {
 public:
  /// threads: at least 1. Where the system refuses some, the others do the work; where it refuses
  /// all, submit() does.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Waits for every submitted task. What they throw is lost, unless wait() came before.
  ~ThreadPool();

  /// That run tasks; at least 1.
  int threads() const { return std::max(static_cast<int>(threads_.size()), 1); }

  void submit(std::function<void()> task);

  /// Returns once every task submitted so far has ended; throws what the first of them threw since
  /// the last call.
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
