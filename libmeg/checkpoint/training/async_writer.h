#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "libmeg/base/status.h"

namespace meg::checkpoint {

/// Writes a checkpoint, or a rank's part of one, from a thread of its own while training continues:
/// one task is in flight at a time. All functions are for one thread at a time.
///
/// A training step waits only for the snapshot, which the caller makes: tensors whose `owner` holds
/// copies that training no longer changes.
class AsyncWriter {
 public:
  AsyncWriter() = default;
  AsyncWriter(const AsyncWriter&) = delete;
  AsyncWriter& operator=(const AsyncWriter&) = delete;

  /// Waits for the task in flight. Call finish() first to learn its error.
  ~AsyncWriter();

  /// Starts a task; it and the snapshot that it holds are released as soon as it has ended. Waits
  /// until an earlier task has ended; if that one failed, returns its error and starts nothing (the
  /// next call does). kResourceExhausted if no thread can be started.
  Status run(std::function<Status()> task);

  /// Whether a task is in flight: run() would wait for it.
  bool is_busy() const { return busy_.load(); }

  /// Waits for the task in flight and returns the error of the last one; each error is returned
  /// once.
  Status finish();

 private:
  std::thread thread_;
  std::atomic<bool> busy_ = false;
  Status status_;  ///< Result of the task in flight; read after the thread was joined.
};

}  // namespace meg::checkpoint
