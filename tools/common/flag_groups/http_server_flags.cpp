#include "tools/common/flag_groups/http_server_flags.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "libmeg/text/ascii.h"
#include "libmeg/text/printable.h"
#include "tools/common/report.h"

namespace meg::tools {
namespace {

using std::chrono::milliseconds;

constexpr char kKeyVariable[] = "MEG_API_KEY";
constexpr size_t kMaxKeyFile = 1 << 20;

milliseconds in_milliseconds(double seconds) {
  return milliseconds(static_cast<int64_t>(seconds * 1e3));
}

/// A host as URLs have it, without scheme and path; a port may follow.
bool is_host(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return text::is_ascii_digit(c) || text::is_ascii_letter(c) ||
           std::string_view("-._:[]").find(c) != std::string_view::npos;
  });
}

bool is_origin(const std::string& origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return is_host(origin.substr(scheme.size()));
  }
  return origin == "*";
}

/// The key is not shown: messages end up in logs.
Status check_key(const std::string& key, std::string_view where) {
  const auto is_visible = [](char c) { return c > ' ' && c < '\x7f'; };
  if (!key.empty() && std::ranges::all_of(key, is_visible)) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a key of visible ASCII characters, found {} of {} bytes", where,
                    key.empty() ? "one" : "another", key.size());
}

Result<std::vector<std::string>> keys_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  std::vector<std::string> keys;
  size_t size = 0;
  if (!file) return errno_error(errno, path);
  while (std::getline(file, line)) {
    size += line.size();
    if (size > kMaxKeyFile) break;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty()) continue;
    MEG_RETURN_IF_ERROR(check_key(line, path));
    keys.push_back(line);
  }
  if (file.bad() || size > kMaxKeyFile || keys.empty()) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected API keys, one a line, found none in {} bytes", path, size);
  }
  return keys;
}

Result<std::vector<std::string>> keys_of(const HttpServerFlags& flags) {
  std::vector<std::string> keys = flags.api_key;
  for (const std::string& key : keys) MEG_RETURN_IF_ERROR(check_key(key, "--api-key"));
  if (!flags.api_key_file.empty()) {
    MEG_ASSIGN_OR_RETURN(const std::vector<std::string> more, keys_of_file(flags.api_key_file));
    keys.insert(keys.end(), more.begin(), more.end());
  }
  const char* variable = std::getenv(kKeyVariable);
  if (!keys.empty() || variable == nullptr) return keys;
  MEG_RETURN_IF_ERROR(check_key(variable, kKeyVariable));
  keys.emplace_back(variable);
  return keys;
}

}  // namespace

void declare_http_server_flags(Flags& flags, HttpServerFlags& values) {
  constexpr int64_t kMany = int64_t{1} << 30;
  flags.group("Server");
  flags.value("--host", &values.host, "ADDRESS",
              "address to listen on; 0.0.0.0: all interfaces; unix:PATH: a socket that only this "
              "user can open");
  flags.value("--port", &values.port, "N", "port to listen on; 0: any free one, which is printed")
      .range(0, 65535);
  flags.list("--allowed-hosts", &values.allowed_hosts, "NAME...",
             "further host names to answer to, besides localhost, addresses, this machine's name "
             "and --host");
  flags.list("--api-key", &values.api_key, "KEY...",
             "answer only requests that have one of these keys (Authorization: Bearer KEY); other "
             "users can read command lines, so prefer --api-key-file or the variable MEG_API_KEY");
  flags.value("--api-key-file", &values.api_key_file, "FILE", "the same, with a key in each line");
  flags.list("--cors-allow-origin", &values.cors_allow_origin, "ORIGIN...",
             "web pages that may use the server, such as https://lab.example; *: all");
  flags
      .value("--max-connections", &values.max_connections, "N",
             "open connections; beyond them the slowest client is disconnected")
      .range(1, kMany);
  flags
      .value("--max-request-bytes", &values.max_request_bytes, "BYTES",
             "size limit of a request; larger ones get status 413")
      .range(1, kMany);
  flags
      .value("--client-timeout", &values.client_timeout, "SECONDS",
             "time limit for a client to send a request or to read an answer")
      .real_range(0.001, 1e6);
}

Status check_http_server_flags(const HttpServerFlags& flags) {
  for (const std::string& name : flags.allowed_hosts) {
    if (is_host(name)) continue;
    return make_error(
        StatusCode::kInvalidArgument,
        "--allowed-hosts: expected a host name such as node17, found {}{}", text::printable(name),
        name.find("://") == std::string::npos ? ""
                                              : ": leave out http:// and what follows the name");
  }
  for (const std::string& origin : flags.cors_allow_origin) {
    if (is_origin(origin)) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "--cors-allow-origin: expected * or an origin such as "
                      "https://lab.example, without a path, found {}",
                      text::printable(origin));
  }
  return {};
}

Result<serving::HttpServerOptions> http_server_options(const HttpServerFlags& flags) {
  serving::HttpServerOptions options;
  options.host = flags.host;
  options.port = static_cast<int>(flags.port);
  options.allowed_hosts = flags.allowed_hosts;
  MEG_ASSIGN_OR_RETURN(options.api_keys, keys_of(flags));
  options.cors_origins = flags.cors_allow_origin;
  options.max_request_bytes = static_cast<size_t>(flags.max_request_bytes);
  options.max_connections = static_cast<size_t>(flags.max_connections);
  options.limits.request = in_milliseconds(flags.client_timeout);
  options.limits.write = options.limits.request;
  options.limits.idle = options.limits.request;
  return options;
}

void warn_of_open_server(const serving::HttpServerOptions& options, const std::string& address) {
  if (!options.api_keys.empty()) return;
  for (const std::string_view own : {"unix:", "http://127.", "http://[::1]"}) {
    if (address.starts_with(own)) return;
  }
  warning("everyone who can reach " + address +
          " may use this server: --api-key-file asks for a key");
}

void write_log_line(const serving::RequestLog& request) {
  // One write, so that lines of several threads do not mix.
  const std::string line = serving::log_line(request) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace meg::tools
