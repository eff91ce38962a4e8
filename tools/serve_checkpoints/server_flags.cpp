#include "tools/serve_checkpoints/server_flags.h"

#include <algorithm>
#include <chrono>

#include "libmeg/io/file_descriptor.h"
#include "libmeg/text/whitespace.h"
#include "tools/common/report.h"

namespace meg::tools {
namespace {

constexpr size_t kLongestKeyFile = 4096;

/// The key in a file: its only line.
Result<std::string> read_key(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor file, io::FileDescriptor::open_regular(path));
  std::string text(kLongestKeyFile, '\0');
  MEG_ASSIGN_OR_RETURN(const size_t size, file.read(std::as_writable_bytes(std::span(text))));
  text.resize(size);
  std::string key(text::trimmed(text));
  const bool is_printable = std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; });
  if (!key.empty() && is_printable && size < kLongestKeyFile) return key;
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a key of printable ASCII without blanks in one line", path);
}

/// Whether only programs on this machine can reach the server.
bool is_local(const std::string& host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1" ||
         host.starts_with("unix:");
}

}  // namespace

void declare_server_flags(Flags& flags, ServerFlags& values) {
  constexpr int64_t kMany = int64_t{1} << 30;
  flags.group("Server");
  flags.value("--host", &values.host, "ADDRESS",
              "address to listen on; 0.0.0.0: all interfaces; unix:/path: a socket");
  flags.value("--port", &values.port, "N", "port to listen on; 0: any free one, which is printed")
      .range(0, 65535);
  flags.list("--allowed-hosts", &values.allowed_hosts, "NAME...",
             "further host names to answer to, besides localhost, addresses and --host");
  flags.value("--api-key", &values.api_key, "KEY",
              "answer only requests with this key, which clients have in HF_TOKEN; other users "
              "of this machine can see it");
  flags.value("--api-key-file", &values.api_key_file, "FILE", "the same with the key in a file");
  flags
      .value("--client-timeout", &values.client_timeout, "SECONDS",
             "time limit for a client to send a request or to read 1 MiB of an answer")
      .real_range(0.001, 1e6);
  flags
      .value("--max-connections", &values.max_connections, "N",
             "open connections; beyond them the slowest client is disconnected")
      .range(1, kMany);
}

Result<serving::HttpServerOptions> server_options(const ServerFlags& flags) {
  serving::HttpServerOptions options;
  options.host = flags.host;
  options.port = static_cast<int>(flags.port);
  options.allowed_hosts = flags.allowed_hosts;
  if (!flags.api_key.empty()) options.api_keys.push_back(flags.api_key);
  if (!flags.api_key_file.empty()) {
    MEG_ASSIGN_OR_RETURN(std::string key, read_key(flags.api_key_file));
    options.api_keys.push_back(std::move(key));
  }
  if (options.api_keys.empty() && !is_local(flags.host)) {
    warning("--host " + flags.host + " without --api-key-file: whoever reaches it can download");
  }
  options.max_connections = static_cast<size_t>(flags.max_connections);
  options.limits.request =
      std::chrono::milliseconds(static_cast<int64_t>(flags.client_timeout * 1e3));
  options.limits.write = options.limits.request;
  options.limits.idle = options.limits.request;
  return options;
}

}  // namespace meg::tools
