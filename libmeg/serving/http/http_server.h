#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/serving/http/client_connection.h"
#include "libmeg/serving/http/http_message.h"
#include "libmeg/serving/http/request_log.h"

namespace meg::serving {

struct HttpServerOptions {
  std::string host = "127.0.0.1";              ///< Or `unix:/path`.
  int port = 5000;                             ///< 0: any free one. Unused for unix:.
  std::vector<std::string> allowed_hosts;      ///< See AllowedHosts; host is one by itself.
  std::vector<std::string> api_keys;           ///< One of them is required; none: no key is.
  std::vector<std::string> cors_origins;       ///< Whose pages may read answers; `*`: all.
  size_t max_request_bytes = size_t{4} << 20;  ///< Maximum size of a request's body.
  size_t max_connections = 512;
  ClientLimits limits;
};

/// What a server answers.
struct HttpService {
  /// A request is answered by the route of its path, otherwise by the longest prefix. Paths without
  /// any get status 404.
  std::vector<HttpRoute> routes;
  /// Called for each request: before its answer is sent, or after a body that is written piecewise.
  /// May be empty.
  std::function<void(const RequestLog&)> log;
};

/// HTTP/1.1 over TCP or a Unix socket, a thread for each connection. Nothing that a client sends or
/// fails to send ends the server or delays others; invalid requests get a 4xx in the form of the
/// route.
class HttpServer {
 public:
  /// Listens and answers from now on, on threads of its own.
  /// Errors: kInvalidArgument for a host that is none, kIoError for a port or socket in use.
  static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options, HttpService service);

  /// Calls stop().
  ~HttpServer();

  /// 0 for a Unix socket.
  int port() const;

  /// As users type it: "http://127.0.0.1:5000", "http://[::1]:5000" or "unix:/path".
  std::string address() const;

  /// Accepts no more connections and closes those that are not being answered.
  void close_door();

  /// Calls close_door(), waits at most `grace` until pending answers have been sent, and then
  /// closes the connections.
  void stop(std::chrono::milliseconds grace = std::chrono::seconds(2));

 private:
  class Implementation;

  explicit HttpServer(std::unique_ptr<Implementation> implementation);

  std::unique_ptr<Implementation> implementation_;
};

}  // namespace meg::serving
