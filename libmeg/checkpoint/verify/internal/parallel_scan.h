#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/base/status.h"

namespace meg::checkpoint {

/// Runs independent pieces of reading work on several threads, with progress and cancellation.
class ParallelScan {
 public:
  /// workers: at least 1. total_bytes: the sum that all pieces will report to advance().
  ParallelScan(int workers, int64_t total_bytes, const ProgressCallback& progress)
      : workers_(workers), total_bytes_(total_bytes), progress_(progress) {}

  /// Runs work(0) ... work(count - 1) and returns what each returned. Pieces that had not started
  /// when the work was cancelled return ok; std::bad_alloc in a piece becomes its
  /// kResourceExhausted.
  std::vector<Status> run(size_t count, const std::function<Status(size_t)>& work);

  /// Called by the pieces regularly to report bytes done. kCancelled if the work should end.
  Status advance(size_t bytes);

  bool is_cancelled() const { return cancelled_; }

 private:
  int workers_;
  int64_t total_bytes_;
  const ProgressCallback& progress_;
  std::mutex mutex_;
  int64_t bytes_done_ = 0;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace meg::checkpoint
