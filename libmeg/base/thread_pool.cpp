#include "libmeg/base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

namespace meg {

ThreadPool::ThreadPool(int threads) {
  threads_.reserve(static_cast<size_t>(std::max(threads, 1)));
  try {
    for (int i = 0; i < std::max(threads, 1); ++i) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {  // Those that did start are enough.
  } catch (const std::bad_alloc&) {
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  task_ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::submit(std::function<void()> task) {
  if (threads_.empty()) return run_task(task);
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  task_ready_.notify_one();
}

void ThreadPool::wait() {
  std::unique_lock lock(mutex_);
  all_done_.wait(lock, [this] { return tasks_.empty() && running_ == 0; });
  if (const std::exception_ptr thrown = std::exchange(thrown_, nullptr)) {
    std::rethrow_exception(thrown);
  }
}

void ThreadPool::run_task(const std::function<void()>& task) {
  try {
    task();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (thrown_ == nullptr) thrown_ = std::current_exception();
  }
}

void ThreadPool::run() {
  std::unique_lock lock(mutex_);
  // The lock is held but while a task runs. A stopping pool still runs what was submitted: threads
  // leave only when no task is left.
  while (true) {
    task_ready_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    ++running_;
    lock.unlock();
    run_task(task);
    // What the task captured goes before the task counts as done: wait() promises that nothing of
    // it is left.
    task = nullptr;
    lock.lock();
    --running_;
    if (tasks_.empty() && running_ == 0) all_done_.notify_all();
  }
}

int available_processors() {
  // The affinity mask, not the machine's processors: containers and job schedulers give a process a
  // part of them. The call fails on machines with more processors than a cpu_set_t has bits.
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(CPU_COUNT(&set), 1);
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

}  // namespace meg
