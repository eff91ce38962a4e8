#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/serving/http/client_connection.h"
#include "libmeg/serving/http/request_log.h"
#include "libmeg/serving/megatron_api.h"

namespace meg::serving {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 5000;                             ///< 0: any free one.
  std::vector<std::string> allowed_hosts;      ///< See AllowedHosts; host is one by itself.
  size_t max_request_bytes = size_t{4} << 20;  ///< Maximum size of a request's body.
  size_t max_connections = 512;
  ClientLimits limits;
};

/// The answer of `GET /health`: status 200, or 503 if the server is not ok.
struct Health {
  bool is_ok = true;
  std::string json = {};
};

/// The handlers of the server. All are called from many threads.
struct HttpHandlers {
  /// `PUT /api` and `POST /api`: the body and the client's socket.
  std::function<ApiAnswer(std::string_view body, int client)> api;
  std::function<Health()> health;
  /// `GET /`: a page of HTML; must outlive the server.
  std::string_view page;
  /// Called for each request, before its answer is sent; may be empty.
  std::function<void(const RequestLog&)> log;
};

/// HTTP/1.1 over TCP, a thread for each connection. Nothing that a client sends or fails to send
/// ends the server or delays others; invalid requests get a 4xx and `{"message":...}`.
class HttpServer {
 public:
  /// Listens and answers from now on, on threads of its own.
  /// Errors: kInvalidArgument for a host that is none, kIoError for a port in use.
  static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options,
                                                   HttpHandlers handlers);

  /// Calls stop().
  ~HttpServer();

  int port() const;

  /// Host and port, such as "127.0.0.1:5000" or "[::1]:5000".
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
