#include "libmeg/checkpoint/verify/internal/parallel_scan.h"

#include <new>

#include "libmeg/base/thread_pool.h"

namespace meg::checkpoint {

std::vector<Status> ParallelScan::run(size_t count, const std::function<Status(size_t)>& work) {
  std::vector<Status> results(count);
  ThreadPool pool(workers_);
  for (size_t i = 0; i < count; ++i) {
    pool.submit([this, i, &results, &work] {
      if (cancelled_) return;
      try {
        results[i] = work(i);
      } catch (const std::bad_alloc&) {
        results[i] = Status(StatusCode::kResourceExhausted, "out of memory");
      }
    });
  }
  pool.wait();
  return results;
}

Status ParallelScan::advance(size_t bytes) {
  if (progress_) {
    const std::lock_guard lock(mutex_);
    bytes_done_ += static_cast<int64_t>(bytes);
    if (!cancelled_ && !progress_({.bytes = bytes_done_, .total_bytes = total_bytes_})) {
      cancelled_ = true;
    }
  }
  return cancelled_ ? Status(StatusCode::kCancelled, "cancelled") : Status();
}

}  // namespace meg::checkpoint
