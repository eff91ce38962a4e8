#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "libmeg/io/file_descriptor.h"

namespace meg::serving {

/// The time limits of one request.
struct ClientLimits {
  std::chrono::milliseconds request = std::chrono::seconds(30);  ///< To receive one, whole.
  std::chrono::milliseconds write = std::chrono::seconds(30);    ///< To send an answer.
  std::chrono::milliseconds idle = std::chrono::seconds(30);     ///< Between two requests.
};

/// A client's socket with a deadline for everything. One thread uses it; interrupt() and
/// reading_since() may be called from others.
class ClientConnection {
 public:
  using Clock = std::chrono::steady_clock;

  /// socket: a connected one, non-blocking.
  ClientConnection(io::FileDescriptor socket, ClientLimits limits);

  int socket() const { return socket_.get(); }

  /// Waits for the first byte of a request and starts its time; false where none came.
  bool wait_for_request();

  /// The time to receive ends here and does not count any more.
  void request_is_read() { reading_since_ = 0; }

  /// Reads at least one byte; returns 0 at the end of the client's data, -1 after an error or if
  /// the client was too slow.
  ssize_t read(char* into, size_t size);

  /// All bytes or -1.
  ssize_t write(const char* from, size_t size);

  /// Whether the time to receive the request ran out.
  bool is_too_slow() const { return is_too_slow_; }

  /// Shuts down sending and waits briefly for the client to do the same, so that it can read an
  /// answer that was sent before its request was read completely.
  void close_gently();

  /// Ends both directions, so that pending reads and writes fail.
  void interrupt();

  /// The time, in ticks of the steady clock, since which the thread has waited for the client to
  /// send; 0 if it does not wait.
  int64_t reading_since() const { return reading_since_; }

 private:
  bool wait(short events, Clock::time_point deadline);
  ssize_t receive(Clock::time_point deadline);

  io::FileDescriptor socket_;
  const ClientLimits limits_;
  std::atomic<int64_t> reading_since_;
  Clock::time_point deadline_;
  std::array<char, 8192> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool is_too_slow_ = false;
};

}  // namespace meg::serving
