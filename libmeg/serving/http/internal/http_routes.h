#pragma once

#include <string>
#include <vector>

#include "libmeg/serving/http/client_connection.h"
#include "libmeg/serving/http/http_server.h"
#include "libmeg/serving/http/internal/allowed_hosts.h"
#include "libmeg/serving/http/internal/http_request.h"

namespace meg::serving {

/// Which request gets which answer. Shared between the connections' threads.
class HttpRoutes {
 public:
  HttpRoutes(HttpService service, const HttpServerOptions& options);

  /// Reads one request and writes its answer. last: tells the client that the connection closes
  /// afterwards.
  /// False where the connection should close.
  bool answer_one(ClientConnection& connection, bool last) const;

 private:
  struct Exchange;

  HttpResponse respond(Exchange& exchange) const;
  HttpResponse respond_or_fail(Exchange& exchange) const;
  const HttpRoute* route_of(const std::string& path) const;
  bool has_key(const HttpRequest& request) const;
  bool is_cors_origin(const HttpRequest& request) const;

  const HttpService service_;
  const AllowedHosts hosts_;
  const std::vector<std::string> api_keys_;
  const std::vector<std::string> cors_origins_;
  const size_t max_request_bytes_;
};

}  // namespace meg::serving
