#pragma once

#include <cstddef>
#include <memory>

#include "libmeg/inference/server/client_connection.h"
#include "libmeg/inference/server/http_server.h"

namespace meg::inference {

/// Which request gets which answer, by cpp-httplib's parser and writer on a connection of ours; its
/// own sockets and threads are not used. Shared between the connections' threads.
class HttpRoutes {
 public:
  /// max_request_bytes: of a body.
  HttpRoutes(HttpHandlers handlers, size_t max_request_bytes);
  ~HttpRoutes();

  /// Reads one request and writes its answer. last: say that the connection closes after it.
  /// False where the connection should close.
  bool answer_one(ClientConnection& connection, bool last) const;

 private:
  class Router;

  std::unique_ptr<Router> router_;
};

}  // namespace meg::inference
