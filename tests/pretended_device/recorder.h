#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "tests/pretended_device/counts.h"

namespace meg::pretended {

/// The work that streams were given, numbered in the order of the calls, and how much of it the
/// host is known to have waited for. Safe among threads.
class Recorder {
 public:
  static Recorder& instance();

  void add_kernel(const void* stream, std::string_view name);
  void add_copy(const void* stream);
  void add_fill(const void* stream);
  void add_allocated(size_t bytes);
  void add_to_device(size_t bytes);
  void add_to_host(size_t bytes);
  void add_exchanged(size_t bytes);

  /// Until end_recording() work of the stream is neither done nor counted, but part of a graph.
  void begin_recording(const void* stream);
  void end_recording(const void* stream);
  bool is_recording(const void* stream);

  /// The number of the last work of a stream, and of all streams.
  int64_t last_of(const void* stream);
  int64_t last();

  /// The host waits for the work of this number and what came before. Counted only where it has not
  /// waited for that already: a copy to the host that is followed by a synchronization is one wait.
  void wait_for(int64_t number);

  Counts take();

 private:
  /// Whether it is counted.
  bool queue(const void* stream);

  std::mutex mutex_;
  Counts counts_;
  std::unordered_map<const void*, int64_t> last_of_;
  std::unordered_set<const void*> recording_;
  int64_t last_ = 0;
  int64_t waited_for_ = 0;
};

/// Messages that a stream was given to send.
size_t sends_of(const void* stream);

/// With one queue for all streams: returns when other ranks have received the first `count` of
/// them.
void wait_for_sends(const void* stream, size_t count);

}  // namespace meg::pretended
