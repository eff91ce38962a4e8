#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "libmeg/base/status.h"
#include "libmeg/checkpoint/training/training_file.h"
#include "libmeg/checkpoint/training/training_state.h"

namespace meg::checkpoint {

/// Saves snapshots from a thread of its own while training continues: one save is in flight at a
/// time. All functions are for one thread at a time.
///
/// The step pays for the snapshot alone, which the caller makes: tensors whose `owner` holds copies
/// that training does not touch any more. It is released as soon as the save has ended.
class AsyncWriter {
 public:
  AsyncWriter() = default;
  AsyncWriter(const AsyncWriter&) = delete;
  AsyncWriter& operator=(const AsyncWriter&) = delete;

  /// Waits for the save in flight; who wants its error calls finish() before.
  ~AsyncWriter();

  /// Begins to save this rank's snapshot as write_training_checkpoint does. Waits until an earlier
  /// save has ended; where that failed, its error is returned, `state` stays as it was and nothing
  /// is begun (the next call begins anew). kResourceExhausted where no thread can be started.
  Status save(const std::string& save_dir, TrainingState&& state,
              const TrainingFileOptions& options = {});

  /// Whether a save is in flight: save() would wait for it.
  bool is_busy() const { return busy_.load(); }

  /// Waits for the save in flight. The error of the last save, each told once.
  Status finish();

  /// The iteration of the last save that is known to have succeeded (after save() or finish()).
  std::optional<int64_t> saved_iteration() const { return saved_iteration_; }

 private:
  std::thread thread_;
  std::atomic<bool> busy_ = false;
  Status status_;  ///< Of the save in flight; read after the thread was joined.
  int64_t iteration_ = 0;
  std::optional<int64_t> saved_iteration_;
};

}  // namespace meg::checkpoint
