#pragma once

#include <string>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::serving {

/// A TCP socket that accepts connections.
struct ListeningSocket {
  io::FileDescriptor socket;  ///< Non-blocking.
  std::string host;           ///< The numeric address.
  int port = 0;
};

/// host: a name or an address. port: 0 for any free one.
/// Errors: kInvalidArgument for a host that is none, kIoError for a port in use or not allowed.
Result<ListeningSocket> listen_on(const std::string& host, int port);

/// "127.0.0.1:40312" or "[::1]:40312", as URLs have it.
std::string address_text(const std::string& host, int port);

/// The address_text() of the other end; "?" if it is gone.
std::string peer_address(int socket);

}  // namespace meg::serving
