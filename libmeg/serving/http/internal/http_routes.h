#pragma once

#include <cstddef>

#include "libmeg/serving/http/client_connection.h"
#include "libmeg/serving/http/http_server.h"
#include "libmeg/serving/http/internal/allowed_hosts.h"
#include "libmeg/serving/http/internal/http_request.h"
#include "libmeg/serving/http/internal/http_response.h"

namespace meg::serving {

/// Which request gets which answer. Shared between the connections' threads.
class HttpRoutes {
 public:
  /// max_request_bytes: of a body.
  HttpRoutes(HttpHandlers handlers, AllowedHosts hosts, size_t max_request_bytes);

  /// Reads one request and writes its answer. last: tells the client that the connection closes
  /// afterwards.
  /// False where the connection should close.
  bool answer_one(ClientConnection& connection, bool last) const;

 private:
  struct Exchange;

  HttpResponse respond(Exchange& exchange) const;
  HttpResponse respond_to_path(Exchange& exchange) const;
  HttpResponse answer_api(Exchange& exchange) const;
  HttpResponse answer_health() const;
  HttpResponse answer_page() const;

  const HttpHandlers handlers_;
  const AllowedHosts hosts_;
  const size_t max_request_bytes_;
};

}  // namespace meg::serving
