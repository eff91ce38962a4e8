#include "libmeg/serving/http/internal/http_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "libmeg/serving/internal/text_answer.h"

namespace meg::serving {
namespace {

constexpr std::array<std::pair<int, std::string_view>, 17> kReasons = {{
    {200, "OK"},
    {400, "Bad Request"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
}};

std::string_view reason(int status) {
  const auto found =
      std::ranges::find_if(kReasons, [&](const auto& reason) { return reason.first == status; });
  return found == kReasons.end() ? "" : found->second;
}

}  // namespace

HttpResponse error_response(int status, std::string_view message) {
  return {.status = status, .body = error_answer(message)};
}

std::string written(const HttpResponse& response, bool close, bool with_body) {
  // Connection is always said: for HTTP/1.0 keeping it open is not the default.
  std::string bytes =
      fmt::format("HTTP/1.1 {} {}\r\nConnection: {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n",
                  response.status, reason(response.status), close ? "close" : "keep-alive",
                  response.content_type, response.body.size());
  for (const auto& [name, value] : response.headers) {
    bytes += fmt::format("{}: {}\r\n", name, value);
  }
  bytes += "\r\n";
  if (with_body) bytes += response.body;
  return bytes;
}

}  // namespace meg::serving
