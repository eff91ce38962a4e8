#include "libmeg/serving/http/client_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

// The socket is non-blocking, and every wait is a poll() with what is left until a deadline. A
// deadline is set once for a whole request or a whole answer, not for each piece of it, so a client
// that sends a byte now and then runs out of time like one that sends nothing.

namespace meg::serving {
namespace {

constexpr std::chrono::milliseconds kGentleClose = std::chrono::seconds(2);
constexpr size_t kGentleBytes = size_t{64} << 20;

int64_t now_ticks() { return ClientConnection::Clock::now().time_since_epoch().count(); }

}  // namespace

ClientConnection::ClientConnection(io::FileDescriptor socket, ClientLimits limits)
    : socket_(std::move(socket)), limits_(limits), reading_since_(now_ticks()) {}

bool ClientConnection::wait_for_request() {
  reading_since_ = now_ticks();
  is_too_slow_ = false;
  if (begin_ == end_ && receive(Clock::now() + limits_.idle) <= 0) return false;
  deadline_ = Clock::now() + limits_.request;
  return true;
}

/// Fills the buffer, which is empty: as recv() does.
ssize_t ClientConnection::receive(Clock::time_point deadline) {
  for (;;) {
    if (!wait(POLLIN, deadline)) {
      is_too_slow_ = true;
      return -1;
    }
    const ssize_t received = ::recv(socket(), buffer_.data(), buffer_.size(), 0);
    if (received < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    begin_ = 0;
    end_ = static_cast<size_t>(std::max<ssize_t>(received, 0));
    return received;
  }
}

ssize_t ClientConnection::read(char* into, size_t size) {
  if (begin_ == end_) {
    const ssize_t received = receive(deadline_);
    if (received <= 0) return received;
  }
  const size_t given = std::min(size, end_ - begin_);
  std::memcpy(into, buffer_.data() + begin_, given);
  begin_ += given;
  return static_cast<ssize_t>(given);
}

ssize_t ClientConnection::write(const char* from, size_t size) {
  const Clock::time_point deadline = Clock::now() + limits_.write;
  for (size_t sent = 0; sent < size;) {
    // MSG_NOSIGNAL: a client that has gone must not end the process by SIGPIPE.
    const ssize_t part = ::send(socket(), from + sent, size - sent, MSG_NOSIGNAL);
    if (part >= 0) {
      sent += static_cast<size_t>(part);
    } else if (errno == EAGAIN) {
      if (!wait(POLLOUT, deadline)) return -1;
    } else if (errno != EINTR) {
      return -1;
    }
  }
  return static_cast<ssize_t>(size);
}

/// close() while bytes of the client are unread makes the system send a reset, which may reach the
/// client before it has read the answer (RFC 9112, 9.6). So the sending side ends first, and what
/// still comes is read and thrown away, within bounds of time and bytes.
void ClientConnection::close_gently() {
  reading_since_ = now_ticks();
  ::shutdown(socket(), SHUT_WR);
  const Clock::time_point deadline = Clock::now() + kGentleClose;
  for (size_t discarded = 0; discarded < kGentleBytes && wait(POLLIN, deadline);) {
    const ssize_t received = ::recv(socket(), buffer_.data(), buffer_.size(), 0);
    if (received == 0 || (received < 0 && errno != EINTR && errno != EAGAIN)) return;
    discarded += static_cast<size_t>(std::max<ssize_t>(received, 0));
  }
}

void ClientConnection::interrupt() { ::shutdown(socket(), SHUT_RDWR); }

bool ClientConnection::wait(short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd wanted{socket(), events, 0};
    // poll() takes an int of milliseconds; a longer wait is several.
    const int ready = ::poll(&wanted, 1, static_cast<int>(std::min<int64_t>(left, 1'000'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace meg::serving
