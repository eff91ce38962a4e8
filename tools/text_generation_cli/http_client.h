#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::tools {

// A server may be anyone's: what it sends is held up to these sizes.
inline constexpr size_t kMaxAnswerHead = size_t{64} << 10;
inline constexpr size_t kMaxAnswerBody = size_t{64} << 20;

/// The address of a server.
struct Address {
  std::string host;
  int port = 0;
};

/// A server's answer to a request.
struct HttpAnswer {
  int status = 0;
  std::string body;
};

/// A TCP connection to the first of the host's addresses that accepts one. Errors: kIoError with
/// the system's reason.
Result<io::FileDescriptor> connect_to(const Address& address);

/// Sends one HTTP/1.0 request, which a server answers without chunks and by closing the connection,
/// and reads the answer. body: JSON; empty: none is sent. time: until the answer is complete.
/// Errors: kResourceExhausted for more than kMaxAnswerHead and kMaxAnswerBody bytes; kCorruption
/// for what is not such an answer or ends early; kIoError for a connection that breaks or takes
/// longer.
Result<HttpAnswer> exchange(const io::FileDescriptor& connection, const Address& address,
                            std::string_view method, std::string_view path, std::string_view body,
                            std::chrono::seconds time);

}  // namespace meg::tools
