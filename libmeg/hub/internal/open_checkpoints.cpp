#include "libmeg/hub/internal/open_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>

#include "libmeg/base/stopwatch.h"

namespace meg::hub {

/// The one of a folder, as the one that was used last.
std::shared_ptr<OpenCheckpoints::Slot> OpenCheckpoints::slot_of(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  const auto known =
      std::ranges::find(slots_, folder, &std::pair<std::string, std::shared_ptr<Slot>>::first);
  if (known != slots_.end()) {
    slots_.splice(slots_.begin(), slots_, known);
  } else {
    slots_.emplace_front(folder, std::make_shared<Slot>());
    if (slots_.size() > most_) slots_.pop_back();
  }
  return slots_.front().second;
}

Result<CheckpointPointer> OpenCheckpoints::open(const Found& found) {
  const std::shared_ptr<Slot> slot = slot_of(found.revision.folder);
  const std::lock_guard lock(slot->mutex);
  if (slot->result.has_value() && slot->digest == found.state.digest) return *slot->result;
  const Stopwatch watch;
  Result<CheckpointPointer> open = open_in_turn(found);
  log_opening(found, open, watch.seconds());
  // What the system refused it may allow the next time.
  const bool is_lasting =
      open.has_value() || (open.status().code() != StatusCode::kIoError &&
                           open.status().code() != StatusCode::kResourceExhausted);
  slot->result = is_lasting ? std::optional(open) : std::nullopt;
  slot->digest = found.state.digest;
  return open;
}

Result<CheckpointPointer> OpenCheckpoints::open_in_turn(const Found& found) {
  const auto release = [](std::counting_semaphore<kOpening>* opening) { opening->release(); };
  opening_.acquire();
  const std::unique_ptr<std::counting_semaphore<kOpening>, decltype(release)> turn(&opening_,
                                                                                   release);
  return ServedCheckpoint::open(rules_, found.revision.folder, found.state);
}

void OpenCheckpoints::log_opening(const Found& found, const Result<CheckpointPointer>& open,
                                  double seconds) const {
  if (!log_) return;
  const std::string what = fmt::format("{} at {}", found.repository.id, found.revision.name);
  if (!open.has_value()) {
    log_(fmt::format("{}: not served: {}", what, open.status().message()));
    return;
  }
  log_(fmt::format("{}: opened in {:.1f} ms", what, seconds * 1e3));
  for (const std::string& note : (*open)->notes()) {
    log_(fmt::format("{}: note: {}", what, note));
  }
}

}  // namespace meg::hub
