#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "libmeg/parallel/process_group.h"

namespace meg::parallel {

/// A collective, or a message between two ranks, that this rank has waited for.
struct Communication {
  std::string_view group;      ///< "tensor", "data", ...
  std::string_view operation;  ///< "all-reduce", "all-gather", "send" ...
  /// Size of the tensor that is reduced, sent or received, or of the whole that is gathered or
  /// scattered.
  int64_t bytes = 0;
  std::chrono::system_clock::time_point issued;
  std::chrono::system_clock::time_point begin, end;  ///< Of the wait for it.
};

using CommunicationObserver = std::function<void(const Communication&)>;

/// Wraps `group` so that `observer` is called for each of its communications, on the thread that
/// waited for it.
std::shared_ptr<ProcessGroup> observed_group(std::shared_ptr<ProcessGroup> group, std::string name,
                                             CommunicationObserver observer);

}  // namespace meg::parallel
