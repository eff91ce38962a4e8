#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "libmeg/serving/http/client_connection.h"
#include "libmeg/serving/http/http_message.h"

namespace meg::serving {

// Maximum length of a line without its end, to bound the memory of a line.
inline constexpr size_t kMaxRequestLine = 8192;
inline constexpr size_t kMaxHeaders = 16384;  ///< Bytes of all header lines; so of all trailers.
inline constexpr size_t kMaxChunkLine = 256;

/// Why a request is not taken: HTTP's status and one sentence for its client.
struct HttpError {
  int status = 400;
  std::string message;
};

/// ASCII letters in lower case, as names in HTTP are compared.
std::string lower(std::string_view text);

/// `a b` of `a%20b`; nullopt if a percent sign is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text);

/// Reads one HTTP/1.1 or 1.0 request, and refuses whatever two readers could read differently,
/// because the bytes after this request are those of the next one. Mirrors RFC 9112 and 9110.
class HttpReader {
 public:
  /// connection must outlive it.
  explicit HttpReader(ClientConnection& connection) : connection_(connection) {}

  /// Reads the request line and the headers, and checks what they say about the body. *request has
  /// what could be read, even after an error.
  std::optional<HttpError> read_head(HttpRequest* request);

  /// Called after read_head(); tells a client that waits for it to continue. max_bytes: of the
  /// body.
  std::optional<HttpError> read_body(size_t max_bytes, std::string* body);

  /// Whether all of the request has been read, so that another one may follow.
  bool is_at_end() const { return is_at_end_; }

 private:
  std::optional<HttpError> read_line(size_t limit, const HttpError& too_long, std::string* line);
  std::optional<HttpError> read_headers(HttpRequest* request);
  std::optional<HttpError> read_framing(const HttpRequest& request);
  std::optional<HttpError> read_body_header(std::string_view name, const std::string& value);
  std::optional<HttpError> read_bytes(size_t count, std::string* body);
  std::optional<HttpError> read_chunks(size_t max_bytes, std::string* body);
  std::optional<HttpError> end_chunk();
  std::optional<HttpError> read_trailers();
  HttpError broken_off() const;

  ClientConnection& connection_;
  std::optional<std::string> content_length_;  ///< Digits.
  bool is_chunked_ = false;
  bool expects_continue_ = false;
  bool is_at_end_ = false;
};

}  // namespace meg::serving
