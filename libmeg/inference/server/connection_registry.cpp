#include "libmeg/inference/server/connection_registry.h"

namespace meg::inference {

bool ConnectionRegistry::add(ClientConnection* connection) {
  const std::lock_guard lock(mutex_);
  if (connections_.size() >= max_connections_) {
    ClientConnection* const slow = slowest();
    // An interrupted one is not removed at once: so many may linger beside those allowed.
    if (slow == nullptr || connections_.size() >= 2 * max_connections_) return false;
    slow->interrupt();
  }
  connections_.insert(connection);
  return true;
}

bool ConnectionRegistry::interrupt_slowest() {
  const std::lock_guard lock(mutex_);
  ClientConnection* const slow = slowest();
  if (slow != nullptr) slow->interrupt();
  return slow != nullptr;
}

ClientConnection* ConnectionRegistry::slowest() const {
  ClientConnection* slow = nullptr;
  int64_t longest = 0;
  for (ClientConnection* connection : connections_) {
    const int64_t since = connection->reading_since();
    if (since == 0 || (slow != nullptr && since >= longest)) continue;
    slow = connection;
    longest = since;
  }
  return slow;
}

void ConnectionRegistry::remove(ClientConnection* connection) {
  const std::lock_guard lock(mutex_);
  connections_.erase(connection);
  // Under the lock: who waits may destroy this as soon as it is released.
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
  return removed_.wait_for(lock, time, [&] { return connections_.empty(); });
}

}  // namespace meg::inference
