#include "libmeg/serving/http/internal/http_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace meg::serving {
namespace {

constexpr std::array<std::pair<int, std::string_view>, 25> kReasons = {{
    {200, "OK"},
    {204, "No Content"},
    {206, "Partial Content"},
    {302, "Found"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {429, "Too Many Requests"},
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

/// The status line and the headers, with the empty line after them.
std::string head_of(const HttpResponse& response, std::string_view framing, bool close) {
  // Connection is always said: for HTTP/1.0 keeping it open is not the default.
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nConnection: {}\r\n", response.status,
                                 reason(response.status), close ? "close" : "keep-alive");
  // A 304 stands for the answer that the client has.
  if (response.status != 204 && response.status != 304) {
    head += fmt::format("Content-Type: {}\r\n{}", response.content_type, framing);
  }
  for (const auto& [name, value] : response.headers) {
    head += fmt::format("{}: {}\r\n", name, value);
  }
  return head + "\r\n";
}

/// Keeps to the length that was announced, or sends chunks where none was.
class BodyWriter final : public HttpBodyWriter {
 public:
  /// head: sent with the first bytes.
  BodyWriter(ClientConnection& connection, std::string head, std::optional<uint64_t> length,
             bool chunked)
      : connection_(connection), bytes_(std::move(head)), left_(length), chunked_(chunked) {}

  bool write(std::string_view piece) override {
    if (left_)
      piece = piece.substr(0, static_cast<size_t>(std::min<uint64_t>(*left_, piece.size())));
    if (piece.empty()) return is_open_;
    if (left_) *left_ -= piece.size();
    if (chunked_) bytes_ += fmt::format("{:x}\r\n", piece.size());
    // Large pieces are not copied.
    if (bytes_.empty()) return send(piece);
    bytes_ += piece;
    if (chunked_) bytes_ += "\r\n";
    return flush();
  }

  /// False if the client cannot tell that the body is complete.
  bool end() {
    if (chunked_) bytes_ += "0\r\n\r\n";
    return flush() && left_.value_or(0) == 0;
  }

 private:
  bool flush() {
    const std::string bytes = std::move(bytes_);
    bytes_.clear();
    return send(bytes);
  }

  bool send(std::string_view bytes) {
    is_open_ = is_open_ && connection_.write(bytes.data(), bytes.size()) >= 0;
    return is_open_;
  }

  ClientConnection& connection_;
  std::string bytes_;  ///< To be sent with the next piece.
  std::optional<uint64_t> left_;
  const bool chunked_;
  bool is_open_ = true;
};

}  // namespace

SentResponse send_response(ClientConnection& connection, const HttpRequest& request,
                           const HttpResponse& response, bool close) {
  const bool has_length = !response.write || response.length.has_value();
  // HTTP/1.0 knows no chunks: its body ends with the connection.
  const bool chunked = !has_length && request.is_1_1;
  close = close || (!has_length && !chunked);
  const uint64_t length = response.write ? response.length.value_or(0) : response.body.size();
  std::string framing;
  if (has_length) framing = fmt::format("Content-Length: {}\r\n", length);
  if (chunked) framing = "Transfer-Encoding: chunked\r\n";
  std::string head = head_of(response, framing, close);
  bool is_whole = false;
  if (response.write && request.method != "HEAD") {
    BodyWriter writer(connection, std::move(head), response.length, chunked);
    response.write(writer);
    is_whole = writer.end();
  } else {
    if (request.method != "HEAD") head += response.body;
    is_whole = connection.write(head.data(), head.size()) >= 0;
  }
  return {is_whole, is_whole && !close};
}

}  // namespace meg::serving
