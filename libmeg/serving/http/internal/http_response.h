#pragma once

#include "libmeg/serving/http/client_connection.h"
#include "libmeg/serving/http/http_message.h"

namespace meg::serving {

/// What has become of a response.
struct SentResponse {
  bool is_whole = false;    ///< Else the client is gone, or `write` wrote less than it should.
  bool stays_open = false;  ///< Whether a further request may follow.
};

/// Sends a response to `request`, whose body is left out for HEAD. close: says that the connection
/// closes afterwards.
SentResponse send_response(ClientConnection& connection, const HttpRequest& request,
                           const HttpResponse& response, bool close);

}  // namespace meg::serving
