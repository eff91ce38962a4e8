#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/serving/http/http_server.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

/// Where a server listens and whom it answers, by its flags.
struct ServerFlags {
  std::string host = "127.0.0.1";
  int64_t port = 5000;
  std::vector<std::string> allowed_hosts;
  std::string api_key, api_key_file;
  double client_timeout = 30;
  int64_t max_connections = 512;
};

void declare_server_flags(Flags& flags, ServerFlags& values);

/// Errors: those of reading the file of keys.
Result<serving::HttpServerOptions> server_options(const ServerFlags& flags);

}  // namespace meg::tools
