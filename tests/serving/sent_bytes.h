#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include <string_view>

#include "libmeg/io/file_descriptor.h"
#include "libmeg/serving/http/client_connection.h"

namespace meg::test {

/// A client that sends `bytes`, as many as a socket's buffer holds, and ends its sending.
struct SentBytes {
  explicit SentBytes(std::string_view bytes) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return;
    client = io::FileDescriptor(ends[0], "client");
    server = io::FileDescriptor(ends[1], "server");
    while (!bytes.empty()) {
      const ssize_t sent = ::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) break;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    ::shutdown(client.get(), SHUT_WR);
  }

  /// The server's end, once.
  serving::ClientConnection accept() {
    return serving::ClientConnection(std::move(server), serving::ClientLimits());
  }

  io::FileDescriptor client, server;
};

}  // namespace meg::test
