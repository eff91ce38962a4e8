#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::serving {

/// How a host says that it is the path of a Unix socket.
inline constexpr std::string_view kUnixScheme = "unix:";

/// A socket that accepts connections.
struct ListeningSocket {
  io::FileDescriptor socket;  ///< Non-blocking.
  std::string host;           ///< The numeric address; for a Unix socket as it was given.
  int port = 0;
  /// Of the socket's file, which remove_file() removes.
  uint64_t device = 0, inode = 0;

  /// Removes the file of a Unix socket, unless another one has taken its name.
  void remove_file() const;
};

/// host: a name or an address; or `unix:` and a path, at which only this user may connect, and
/// where a socket that nobody listens on is replaced. port: 0 for any free one.
/// Errors: kInvalidArgument for a host that is none, kIoError for a port or path in use or not
/// allowed.
Result<ListeningSocket> listen_on(const std::string& host, int port);

/// "127.0.0.1:40312" or "[::1]:40312", as URLs have it.
std::string address_text(const std::string& host, int port);

/// The address_text() of the other end; "?" if it is gone, "unix" at a Unix socket.
std::string peer_address(int socket);

}  // namespace meg::serving
