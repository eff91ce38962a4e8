#include "libmeg/serving/http/internal/connection_registry.h"

namespace meg::serving {
namespace {

/// An interrupted connection's thread needs microseconds.
constexpr auto kLeaving = std::chrono::seconds(1);

}  // namespace

bool ConnectionRegistry::add(ClientConnection* connection) {
  std::unique_lock lock(mutex_);
  if (connections_.size() >= max_connections_) {
    // Interrupted connections no longer count as open, but their threads still run: bounded by the
    // same number, or a flood would pile them up.
    const auto few_leave = [&] { return leaving_.size() < max_connections_; };
    if (!removed_.wait_for(lock, kLeaving, few_leave) || !interrupt_one()) return false;
  }
  connections_.insert(connection);
  return true;
}

bool ConnectionRegistry::interrupt_slowest() {
  const std::lock_guard lock(mutex_);
  return interrupt_one();
}

bool ConnectionRegistry::interrupt_one() {
  ClientConnection* slowest = nullptr;
  int64_t longest = 0;
  for (ClientConnection* connection : connections_) {
    const int64_t since = connection->reading_since();
    // 0: the server is at work on its answer; such a connection is nobody's delay.
    if (since == 0 || (slowest != nullptr && since >= longest)) continue;
    slowest = connection;
    longest = since;
  }
  if (slowest == nullptr) return false;
  slowest->interrupt();
  leaving_.insert(slowest);  // first: where memory lacks it stays where it was
  connections_.erase(slowest);
  return true;
}

void ConnectionRegistry::remove(ClientConnection* connection) {
  const std::lock_guard lock(mutex_);
  connections_.erase(connection);
  leaving_.erase(connection);
  // Notify under the lock: who waits may destroy this as soon as it is released.
  removed_.notify_all();
}

void ConnectionRegistry::interrupt_readers() {
  const std::lock_guard lock(mutex_);
  for (ClientConnection* connection : connections_) {
    if (connection->reading_since() != 0) connection->interrupt();
  }
}

void ConnectionRegistry::interrupt_all() {
  const std::lock_guard lock(mutex_);
  for (ClientConnection* connection : connections_) connection->interrupt();
}

bool ConnectionRegistry::wait_until_empty(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return removed_.wait_for(lock, time, [&] { return connections_.empty() && leaving_.empty(); });
}

}  // namespace meg::serving
