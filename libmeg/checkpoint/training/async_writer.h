#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "libmeg/base/status.h"

namespace meg::checkpoint {

/// Writes a checkpoint, or a rank's part of one, from a thread of its own while training continues:
/// one task is in flight at a time. All functions are for one thread at a time.
///
/// The step pays for the snapshot alone, which the caller makes: tensors whose `owner` holds copies
/// that training does not touch any more.
class AsyncWriter {
 public:
  AsyncWriter() = default;
  AsyncWriter(const AsyncWriter&) = delete;
  AsyncWriter& operator=(const AsyncWriter&) = delete;

  /// Waits for the task in flight; who wants its error calls finish() before.
  ~AsyncWriter();

  /// Begins a task, which is released, with the snapshot that it holds, as soon as it has ended.
  /// Waits until an earlier one has ended; where that failed, its error is returned and nothing is
  /// begun (the next call begins anew). kResourceExhausted where no thread can be started.
  Status run(std::function<Status()> task);

  /// Whether a task is in flight: run() would wait for it.
  bool is_busy() const { return busy_.load(); }

  /// Waits for the task in flight. The error of the last one, each told once.
  Status finish();

 private:
  std::thread thread_;
  std::atomic<bool> busy_ = false;
  Status status_;  ///< Of the task in flight; read after the thread was joined.
};

}  // namespace meg::checkpoint
