#include "libmeg/serving/http/internal/http_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "libmeg/text/ascii.h"
#include "libmeg/text/printable.h"

// A parser that knows one right form and refuses the rest. Where a proxy in front and this server
// read a request's end differently, a client can hide a second request in the first one's body, so
// everything that is ambiguous (LF alone, spaces in names, two lengths, a length beside chunks) is
// an error that closes the connection. Limits hold before anything is stored.

namespace meg::serving {

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), text::ascii_lower);
  return result;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned value = 0;
    if (text.size() - i < 3) return std::nullopt;
    const char* const end = text.data() + i + 3;
    if (std::from_chars(text.data() + i + 1, end, value, 16).ptr != end) return std::nullopt;
    decoded += static_cast<char>(value);
    i += 2;
  }
  return decoded;
}

namespace {

using MaybeError = std::optional<HttpError>;

constexpr std::string_view kWhitespace = " \t";
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

/// What RFC 9110 calls a token: names of methods and headers.
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return text::is_ascii_digit(c) || text::is_ascii_letter(c) ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool is_control(char c) { return (c >= 0 && c < ' ') || c == '\x7f'; }

std::string_view without_blanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(kWhitespace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhitespace) + 1 - begin);
}

/// Whether a list such as `Connection: keep-alive, Upgrade` names `wanted`.
bool lists(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    if (lower(without_blanks(list.substr(0, end))) == wanted) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

HttpError too_large(size_t max_bytes) {
  return {413, fmt::format("the request is larger than {} bytes", max_bytes)};
}

HttpError headers_too_long() {
  return {431, fmt::format("the headers are longer than {} bytes", kMaxHeaders)};
}

MaybeError read_version(std::string_view version, HttpRequest* request) {
  if (version.size() != 8 || !version.starts_with("HTTP/") || !text::is_ascii_digit(version[5]) ||
      version[6] != '.' || !text::is_ascii_digit(version[7])) {
    return HttpError{400, "the request is not HTTP/1.1 as this server reads it"};
  }
  request->is_1_1 = version == "HTTP/1.1";
  if (request->is_1_1 || version == "HTTP/1.0") return std::nullopt;
  return HttpError{505, "this server speaks HTTP/1.1 and HTTP/1.0"};
}

/// Segments that lead upwards are refused here, for all that make file names of paths.
MaybeError read_path(std::string_view path, HttpRequest* request) {
  if (!path.starts_with('/')) {
    return HttpError{400, "the request's target must begin with / or http://"};
  }
  std::optional<std::string> decoded = percent_decoded(path);
  if (!decoded || std::ranges::any_of(*decoded, is_control)) {
    return HttpError{400, "the request's path is not percent-encoded as it should be, found " +
                              text::printable(path)};
  }
  for (const std::string_view segment : {"/./", "/../"}) {
    if ((*decoded + "/").find(segment) == std::string::npos) continue;
    return HttpError{
        400, "the request's path must not have segments . or .., found " + text::printable(path)};
  }
  request->path = *std::move(decoded);
  return std::nullopt;
}

/// `/path?query`, or `http://host/path?query` as a proxy is asked.
MaybeError read_target(std::string_view target, HttpRequest* request) {
  constexpr std::string_view kScheme = "http://";
  if (lower(target.substr(0, kScheme.size())) == kScheme) {
    target.remove_prefix(kScheme.size());
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    request->host = target.substr(0, end);
    if (end == 0) return HttpError{400, "the request's target must name a host after http://"};
    target.remove_prefix(end);
    if (!target.starts_with('/')) target = "/";
  }
  const size_t end = std::min(target.find('?'), target.size());
  request->query = target.substr(std::min(end + 1, target.size()));
  return read_path(target.substr(0, end), request);
}

MaybeError read_request_line(std::string_view line, HttpRequest* request) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  const std::string_view method = line.substr(0, first);
  if (first == last || !is_token(method)) {
    return HttpError{400, "the request is not HTTP/1.1 as this server reads it"};
  }
  request->method = method;
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (std::ranges::any_of(target, [](char c) { return is_control(c) || c == ' '; })) {
    return HttpError{400, "the request's target must not have spaces or control characters"};
  }
  if (auto error = read_version(line.substr(last + 1), request)) return error;
  return read_target(target, request);
}

MaybeError read_header(std::string_view line, HttpRequest* request) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    return HttpError{
        400, "a header must be a name, a colon and a value, found " + text::printable(line)};
  }
  const std::string_view value = without_blanks(line.substr(colon + 1));
  if (std::ranges::any_of(value, [](char c) { return is_control(c) && c != '\t'; })) {
    return HttpError{400,
                     "a header must not have control characters, found " + text::printable(line)};
  }
  request->headers.emplace_back(lower(line.substr(0, colon)), value);
  return std::nullopt;
}

/// Which host is meant, and whether a further request may follow.
MaybeError read_connection(HttpRequest* request) {
  const auto hosts = std::ranges::count_if(
      request->headers, [](const auto& header) { return header.first == "host"; });
  if (hosts > 1 || (hosts == 0 && request->is_1_1)) {
    return HttpError{400, fmt::format("the request must have one Host header, found {}", hosts)};
  }
  if (hosts == 1 && request->host.empty()) request->host = *request->header("host");
  const std::string* connection = request->header("connection");
  const std::string_view wanted = connection == nullptr ? "" : std::string_view(*connection);
  request->keep_alive = request->is_1_1 ? !lists(wanted, "close") : lists(wanted, "keep-alive");
  return std::nullopt;
}

std::optional<size_t> chunk_size(std::string_view line) {
  size_t size = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
  if (error == std::errc::invalid_argument) return std::nullopt;
  const auto rest = without_blanks(line.substr(static_cast<size_t>(end - line.data())));
  if (!rest.empty() && rest.front() != ';') return std::nullopt;
  // More digits than a size has: larger than any limit.
  return error == std::errc() ? size : std::string_view::npos;
}

}  // namespace

HttpError HttpReader::broken_off() const {
  if (connection_.is_too_slow()) return {408, "the request took too long to arrive"};
  return {400, "the request ended before it was complete"};
}

MaybeError HttpReader::read_line(size_t limit, const HttpError& too_long, std::string* line) {
  line->clear();
  for (char c = 0;;) {
    // One byte at a time out of the connection's buffer: nothing after this request may be taken.
    if (connection_.read(&c, 1) != 1) return broken_off();
    if (c == '\n') break;
    // One more than the limit, for the CR that is taken off below.
    if (line->size() > limit) return too_long;
    line->push_back(c);
  }
  if (!line->ends_with('\r')) return HttpError{400, "a line must end in CR LF, found LF alone"};
  line->pop_back();
  return std::nullopt;
}

/// Everything about the body's length is settled here, before a byte of it is read.
MaybeError HttpReader::read_head(HttpRequest* request) {
  const HttpError too_long{414, fmt::format("the path is longer than {} bytes", kMaxRequestLine)};
  std::string line;
  if (auto error = read_line(kMaxRequestLine, too_long, &line)) return error;
  if (auto error = read_request_line(line, request)) return error;
  if (auto error = read_headers(request)) return error;
  if (auto error = read_connection(request)) return error;
  return read_framing(*request);
}

MaybeError HttpReader::read_headers(HttpRequest* request) {
  std::string line;
  for (size_t left = kMaxHeaders;; left -= line.size()) {
    if (auto error = read_line(left, headers_too_long(), &line)) return error;
    if (line.empty()) return std::nullopt;
    if (auto error = read_header(line, request)) return error;
  }
}

/// How long the body is. Two readers that answer this differently take each other's requests for
/// something else, so whatever is said twice is refused.
MaybeError HttpReader::read_framing(const HttpRequest& request) {
  for (const auto& [name, value] : request.headers) {
    if (auto error = read_body_header(name, value)) return error;
  }
  if (is_chunked_ && content_length_) {
    return HttpError{400, "the request has a Content-Length and a Transfer-Encoding"};
  }
  if (is_chunked_ && !request.is_1_1) {
    return HttpError{400, "the request has a Transfer-Encoding, which HTTP/1.0 does not know"};
  }
  const std::string length = content_length_.value_or("0");
  // Without a body the request ends here, so a GET may be followed by another request.
  is_at_end_ = !is_chunked_ && length.find_first_not_of('0') == std::string::npos;
  return std::nullopt;
}

MaybeError HttpReader::read_body_header(std::string_view name, const std::string& value) {
  if (name == "content-length") {
    if (value.empty() || !std::ranges::all_of(value, text::is_ascii_digit)) {
      return HttpError{400,
                       "Content-Length must be a number of bytes, found " + text::printable(value)};
    }
    // Equal ones twice are allowed (RFC 9110, 8.6); compared as text, so that `5` and `05` are not.
    if (content_length_.value_or(value) != value) {
      return HttpError{400, "the request has two different Content-Lengths"};
    }
    content_length_ = value;
  } else if (name == "transfer-encoding") {
    if (lower(value) != "chunked" || is_chunked_) {
      return HttpError{501, "Transfer-Encoding must be chunked, found " + text::printable(value)};
    }
    is_chunked_ = true;
  } else if (name == "content-encoding" && lower(value) != "identity") {
    return HttpError{415, "the request must not be compressed, found " + text::printable(value)};
  } else if (name == "expect") {
    expects_continue_ = lower(value) == "100-continue";
    if (expects_continue_) return std::nullopt;
    return HttpError{417, "Expect must be 100-continue, found " + text::printable(value)};
  }
  return std::nullopt;
}

MaybeError HttpReader::read_body(size_t max_bytes, std::string* body) {
  if (!content_length_ && !is_chunked_) {
    return HttpError{411, "the request has no Content-Length"};
  }
  size_t length = 0;
  if (content_length_) {
    const char* const end = content_length_->data() + content_length_->size();
    const auto [_, error] = std::from_chars(content_length_->data(), end, length);
    if (error != std::errc() || length > max_bytes) return too_large(max_bytes);
  }
  if (expects_continue_ && !is_at_end_) connection_.write(kContinue.data(), kContinue.size());
  if (auto error = is_chunked_ ? read_chunks(max_bytes, body) : read_bytes(length, body)) {
    return error;
  }
  is_at_end_ = true;
  return std::nullopt;
}

/// Memory grows with what has come, not with what was announced.
MaybeError HttpReader::read_bytes(size_t count, std::string* body) {
  std::array<char, 8192> part;
  while (count > 0) {
    const ssize_t size = connection_.read(part.data(), std::min(count, part.size()));
    if (size <= 0) return broken_off();
    body->append(part.data(), static_cast<size_t>(size));
    count -= static_cast<size_t>(size);
  }
  return std::nullopt;
}

MaybeError HttpReader::read_chunks(size_t max_bytes, std::string* body) {
  const HttpError too_long{
      400, fmt::format("the line with a chunk's size is longer than {} bytes", kMaxChunkLine)};
  for (std::string line;;) {
    if (auto error = read_line(kMaxChunkLine, too_long, &line)) return error;
    const std::optional<size_t> size = chunk_size(line);
    if (!size) {
      return HttpError{400, "a chunk must begin with its size in hexadecimal digits, found " +
                                text::printable(line)};
    }
    if (*size == 0) return read_trailers();
    // The body never exceeds max_bytes, so the difference does not wrap round.
    if (*size > max_bytes - body->size()) return too_large(max_bytes);
    if (auto error = read_bytes(*size, body)) return error;
    if (auto error = end_chunk()) return error;
  }
}

MaybeError HttpReader::end_chunk() {
  const HttpError wrong{400, "a chunk does not end where its size says"};
  std::string line;
  if (auto error = read_line(0, wrong, &line)) return error;
  return line.empty() ? std::nullopt : MaybeError(wrong);
}

/// Nothing of them is used.
MaybeError HttpReader::read_trailers() {
  HttpRequest trailers;
  return read_headers(&trailers);
}

}  // namespace meg::serving
