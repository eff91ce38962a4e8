#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/base/status.h"
#include "libmeg/serving/http/http_server.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

/// Where a server listens and whom it answers, by its flags.
struct HttpServerFlags {
  std::string host = "127.0.0.1";
  int64_t port = 5000;
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> api_key;
  std::string api_key_file;
  std::vector<std::string> cors_allow_origin;
  double client_timeout = 30;
  int64_t max_request_bytes = 4 << 20;
  int64_t max_connections = 512;
};

void declare_http_server_flags(Flags& flags, HttpServerFlags& values);

/// kInvalidArgument for values that are none: wrong usage.
Status check_http_server_flags(const HttpServerFlags& flags);

/// Reads the keys: of --api-key and --api-key-file, or of MEG_API_KEY if both are absent.
/// Errors: those of the file; kInvalidArgument for a key that no header can have.
Result<serving::HttpServerOptions> http_server_options(const HttpServerFlags& flags);

/// Warns if others than this machine's users can reach the server and no key is asked for.
void warn_of_open_server(const serving::HttpServerOptions& options, const std::string& address);

/// Writes a line for each request on standard error.
void write_log_line(const serving::RequestLog& request);

}  // namespace meg::tools
