#include "tools/text_generation_cli/http_client.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>

#include "libmeg/text/ascii.h"
#include "libmeg/text/line_ends.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/whitespace.h"

namespace meg::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kReadBytes = size_t{64} << 10;

Status wait(const io::FileDescriptor& connection, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return {StatusCode::kIoError, "the server takes too long"};
    pollfd waits = {connection.get(), events, 0};
    const int ready = ::poll(&waits, 1, static_cast<int>(std::min<int64_t>(left, 1'000'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return errno_error(errno, connection.path());
  }
}

Status send_all(const io::FileDescriptor& connection, std::string_view bytes,
                Clock::time_point deadline) {
  while (!bytes.empty()) {
    MEG_RETURN_IF_ERROR(wait(connection, POLLOUT, deadline));
    const ssize_t sent =
        ::send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno != EINTR && errno != EAGAIN) {
      return errno_error(errno, connection.path());
    }
  }
  return {};
}

/// Appends what has come; false at the end.
Result<bool> receive(const io::FileDescriptor& connection, std::string& bytes,
                     Clock::time_point deadline) {
  char buffer[kReadBytes];
  for (;;) {
    MEG_RETURN_IF_ERROR(wait(connection, POLLIN, deadline));
    const ssize_t count = ::recv(connection.get(), buffer, sizeof buffer, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(errno, connection.path());
    bytes.append(buffer, static_cast<size_t>(count));
    return count > 0;
  }
}

Status too_large(std::string_view what, size_t limit) {
  return make_error(StatusCode::kResourceExhausted,
                    "expected {} of at most {} KiB in the answer, found more", what, limit >> 10);
}

Status not_http(std::string_view found) {
  return make_error(StatusCode::kCorruption, "expected an answer in HTTP, found {}",
                    text::printable(found));
}

/// The status line and the headers.
struct Head {
  int status = 0;
  std::optional<size_t> content_length;
};

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && stop == text.data() + text.size();
}

bool is_name(std::string_view found, std::string_view lower) {
  return std::ranges::equal(found, lower, {}, text::ascii_lower);
}

Result<Head> read_head(std::string_view lines) {
  Head head;
  std::string_view line;
  text::take_line(lines, line);
  const size_t space = line.find(' ');
  if (!line.starts_with("HTTP/1.") || space == line.npos ||
      !read_number(line.substr(space + 1, 3), head.status)) {
    return not_http(line);
  }
  while (text::take_line(lines, line)) {
    const size_t colon = std::min(line.find(':'), line.size());
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = text::trimmed(line.substr(std::min(colon + 1, line.size())));
    if (is_name(name, "content-length")) {
      size_t length = 0;
      if (!read_number(value, length)) return not_http(line);
      head.content_length = length;
    }
    // Not to be sent to a client of HTTP/1.0 (RFC 9112, 6.1).
    if (is_name(name, "transfer-encoding") || is_name(name, "content-encoding")) {
      return make_error(StatusCode::kCorruption, "expected an answer as it is, found {}",
                        text::printable(line));
    }
  }
  return head;
}

/// Where the body begins; npos while the head is incomplete.
size_t head_end(std::string_view bytes) {
  const size_t crlf = bytes.find("\r\n\r\n");
  return crlf == bytes.npos ? crlf : crlf + 4;
}

}  // namespace

Result<io::FileDescriptor> connect_to(const Address& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) return Status(StatusCode::kIoError, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  Status status;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    io::FileDescriptor connection(
        ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol), "connection");
    if (connection.is_open() && ::connect(connection.get(), at->ai_addr, at->ai_addrlen) == 0) {
      return connection;
    }
    status = errno_error(errno, "connection");
  }
  return status;
}

Result<HttpAnswer> exchange(const io::FileDescriptor& connection, const Address& address,
                            std::string_view method, std::string_view path, std::string_view body,
                            std::chrono::seconds time) {
  const Clock::time_point deadline = Clock::now() + time;
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  std::string request =
      fmt::format("{} {} HTTP/1.0\r\nHost: {}{}{}:{}\r\n", method, path, is_ipv6 ? "[" : "",
                  address.host, is_ipv6 ? "]" : "", address.port);
  if (!body.empty()) {
    request += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  }
  request += "\r\n";
  request += body;
  MEG_RETURN_IF_ERROR(send_all(connection, request, deadline));

  std::string bytes;
  size_t end = std::string::npos;
  while (end == std::string::npos) {
    MEG_ASSIGN_OR_RETURN(const bool more, receive(connection, bytes, deadline));
    end = head_end(bytes);
    if (std::min(end, bytes.size()) > kMaxAnswerHead) return too_large("headers", kMaxAnswerHead);
    if (!more && end == std::string::npos) return not_http(bytes);
  }
  MEG_ASSIGN_OR_RETURN(const Head head, read_head(std::string_view(bytes).substr(0, end)));
  bytes.erase(0, end);
  const size_t wanted = head.content_length.value_or(SIZE_MAX);
  for (bool more = true; more && bytes.size() < wanted;) {
    if (std::max(bytes.size(), head.content_length.value_or(0)) > kMaxAnswerBody) {
      return too_large("a body", kMaxAnswerBody);
    }
    MEG_ASSIGN_OR_RETURN(more, receive(connection, bytes, deadline));
  }
  if (bytes.size() < head.content_length.value_or(0)) {
    return make_error(StatusCode::kCorruption, "expected an answer of {} bytes, found {}", wanted,
                      bytes.size());
  }
  bytes.resize(std::min(bytes.size(), wanted));
  return HttpAnswer{head.status, std::move(bytes)};
}

}  // namespace meg::tools
