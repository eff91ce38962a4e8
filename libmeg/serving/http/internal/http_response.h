#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meg::serving {

inline constexpr std::string_view kJsonType = "application/json";

/// A response to a client.
struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string_view content_type = kJsonType;  ///< A literal.
  /// Headers beside those of every answer.
  std::vector<std::pair<std::string_view, std::string>> headers = {};
};

/// `{"message":...}`.
HttpResponse error_response(int status, std::string_view message);

/// The bytes of a response. close: the connection closes after it. with_body: false for HEAD, which
/// only gets the body's length.
std::string written(const HttpResponse& response, bool close, bool with_body);

}  // namespace meg::serving
