#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <unordered_set>

#include "libmeg/base/condition_variable.h"
#include "libmeg/serving/http/client_connection.h"

namespace meg::serving {

/// The open connections, whose number is limited. Each function may be called from any thread; a
/// connection must be removed before it closes.
class ConnectionRegistry {
 public:
  explicit ConnectionRegistry(size_t max_connections) : max_connections_(max_connections) {}

  /// Adds a connection. If there are too many, interrupts the one whose client has been silent or
  /// sending for the longest, so that slow clients give way, and waits briefly for interrupted
  /// connections to close. False if all others are being answered.
  bool add(ClientConnection* connection);

  void remove(ClientConnection* connection);

  /// Makes room by interrupting a slow client, like add(). False if there is none.
  bool interrupt_slowest();

  /// Interrupts those whose thread waits for the client to send.
  void interrupt_readers();

  void interrupt_all();

  /// Whether none is left before the time is over.
  bool wait_until_empty(std::chrono::milliseconds time);

 private:
  /// Must be called with the lock held.
  bool interrupt_one();

  const size_t max_connections_;
  std::mutex mutex_;
  std::condition_variable removed_;
  std::unordered_set<ClientConnection*> connections_;
  std::unordered_set<ClientConnection*> leaving_;  ///< Interrupted to make room.
};

}  // namespace meg::serving
