#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include <string_view>

#include "libmeg/core/file_descriptor.h"
#include "libmeg/inference/server/client_connection.h"

namespace meg::test {

/// A client that sends `bytes`, as many as a socket's buffer holds, and ends its sending.
struct SentBytes {
  explicit SentBytes(std::string_view bytes) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return;
    client = FileDescriptor(ends[0], "client");
    server = FileDescriptor(ends[1], "server");
    while (!bytes.empty()) {
      const ssize_t sent = ::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) break;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    ::shutdown(client.get(), SHUT_WR);
  }

  /// The server's end, once.
  inference::ClientConnection accept() {
    return inference::ClientConnection(std::move(server), inference::ClientLimits());
  }

  FileDescriptor client, server;
};

}  // namespace meg::test
