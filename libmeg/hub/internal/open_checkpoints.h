#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <utility>

#include "libmeg/base/result.h"
#include "libmeg/hub/internal/catalog.h"
#include "libmeg/hub/served_checkpoint.h"

namespace meg::hub {

using CheckpointPointer = std::shared_ptr<const ServedCheckpoint>;

/// The checkpoints that were used last, which stay open. May be called by several threads: those
/// that want the same one wait for the one that opens it.
class OpenCheckpoints {
 public:
  /// most: how many stay open. log: called with a line for each that is opened or cannot be; may be
  /// empty.
  OpenCheckpoints(ServingRules rules, size_t most, std::function<void(const std::string&)> log)
      : rules_(std::move(rules)), most_(most), log_(std::move(log)) {}

  /// The errors of ServedCheckpoint::open(), which is tried again when the folder's state is
  /// another one.
  Result<CheckpointPointer> open(const Found& found);

 private:
  /// Checkpoints that are opened at once.
  static constexpr int kOpening = 2;

  /// A checkpoint that is open or cannot be opened.
  struct Slot {
    std::mutex mutex;  ///< Held while it is opened.
    std::string digest;
    std::optional<Result<CheckpointPointer>> result;
  };

  std::shared_ptr<Slot> slot_of(const std::string& folder);
  Result<CheckpointPointer> open_in_turn(const Found& found);
  void log_opening(const Found& found, const Result<CheckpointPointer>& open, double seconds) const;

  const ServingRules rules_;
  const size_t most_;
  const std::function<void(const std::string&)> log_;
  std::mutex mutex_;
  /// By folder, the last used one first; guarded by mutex_.
  std::list<std::pair<std::string, std::shared_ptr<Slot>>> slots_;
  std::counting_semaphore<kOpening> opening_{kOpening};
};

}  // namespace meg::hub
