#include "tools/common/flag_groups/text_server_flags.h"

#include <fmt/core.h>
#include <malloc.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include "libmeg/serving/http/request_log.h"
#include "tools/common/interruption.h"

namespace meg::tools {
namespace {

using std::chrono::milliseconds;

/// Arenas of malloc: the default is eight for each processor, and what the connections' threads
/// free stays in all of them.
constexpr int kArenas = 2;

/// How long texts that are being generated may continue when the server should end.
constexpr milliseconds kGrace = std::chrono::seconds(10);

milliseconds in_milliseconds(double seconds) {
  return milliseconds(static_cast<int64_t>(seconds * 1e3));
}

void write_log_line(const serving::RequestLog& request) {
  // One write, so that lines of several threads do not mix.
  const std::string line = serving::log_line(request) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

serving::RequestRules request_rules(const TextServerFlags& flags) {
  serving::RequestRules rules;
  rules.sampling.temperature = flags.temperature;
  rules.sampling.top_k = flags.greedy ? 1 : flags.top_k;
  rules.sampling.top_p = flags.top_p;
  rules.max_tokens_to_generate = flags.out_seq_length;
  return rules;
}

serving::HttpServerOptions http_options(const TextServerFlags& flags) {
  serving::HttpServerOptions options;
  options.host = flags.host;
  options.port = static_cast<int>(flags.port);
  options.allowed_hosts = flags.allowed_hosts;
  options.max_request_bytes = static_cast<size_t>(flags.max_request_bytes);
  options.max_connections = static_cast<size_t>(flags.max_connections);
  options.limits.request = in_milliseconds(flags.client_timeout);
  options.limits.write = options.limits.request;
  options.limits.idle = options.limits.request;
  return options;
}

serving::TextServerOptions server_options(const TextServerFlags& flags, int64_t seed) {
  return {.http = http_options(flags),
          .rules = request_rules(flags),
          .max_queue = flags.max_queue,
          .request_timeout = in_milliseconds(flags.request_timeout),
          .seed = static_cast<uint64_t>(seed),
          .log = write_log_line};
}

}  // namespace

void declare_text_server_flags(Flags& flags, TextServerFlags& values) {
  constexpr int64_t kMany = int64_t{1} << 30;
  flags.group("Server");
  flags.value("--host", &values.host, "ADDRESS", "address to listen on; 0.0.0.0: all interfaces");
  flags.value("--port", &values.port, "N", "port to listen on; 0: any free one, which is printed")
      .range(0, 65535);
  flags.list("--allowed-hosts", &values.allowed_hosts, "NAME...",
             "further host names to answer to, besides localhost, addresses and --host");
  flags
      .value("--max-queue", &values.max_queue, "N",
             "requests that may wait for the model; further ones get status 503")
      .range(1, kMany);
  flags
      .value("--max-connections", &values.max_connections, "N",
             "open connections; beyond them the slowest client is disconnected")
      .range(1, kMany);
  flags
      .value("--max-request-bytes", &values.max_request_bytes, "BYTES",
             "size limit of a request; larger ones get status 413")
      .range(1, kMany);
  flags
      .value("--request-timeout", &values.request_timeout, "SECONDS",
             "time limit of a request, waiting included")
      .real_range(0.001, 1e6);
  flags
      .value("--client-timeout", &values.client_timeout, "SECONDS",
             "time limit for a client to send a request or to read an answer")
      .real_range(0.001, 1e6);
  flags.group("Defaults and limits of requests");
  flags
      .value("--out-seq-length", &values.out_seq_length, "N",
             "maximum number of tokens that a request may ask for")
      .range(1, kMany);
  flags.value("--temperature", &values.temperature, "X", "divide the logits by X")
      .real_range(1e-6, 100);
  flags.value("--top_k", &values.top_k, "N", "sample from the N most likely tokens; 0: from all")
      .range(0, 1000);
  flags
      .value("--top_p", &values.top_p, "P",
             "sample from the most likely tokens whose probabilities sum to P; 0: from all")
      .real_range(0, 1);
  flags.toggle("--greedy", &values.greedy, "take the most likely token, same as --top_k 1");
}

Status check_text_server_flags(const TextServerFlags& flags) {
  if (flags.top_k > 0 && flags.top_p > 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "--top_k and --top_p: expected one of them at most");
  }
  if (flags.greedy && (flags.top_k > 1 || flags.top_p > 0)) {
    return make_error(StatusCode::kInvalidArgument,
                      "--greedy: cannot be combined with --top_k or --top_p");
  }
  return {};
}

Status serve_texts(const TextServerFlags& flags, serving::ServedModel model, int64_t seed) {
  stop_at_signals();
  ::mallopt(M_ARENA_MAX, kArenas);
  const std::string name = model.name;
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<serving::TextServer> server,
                       serving::TextServer::start(server_options(flags, seed), std::move(model)));
  fmt::print("> {} is served on {}\n", name, server->address());
  std::fflush(stdout);
  // The handler of a signal may only set a flag, so that flag is polled; so is an engine that
  // cannot continue.
  while (!interrupted() && server->lost().ok()) std::this_thread::sleep_for(milliseconds(50));
  fmt::print("> the server is shutting down\n");
  std::fflush(stdout);
  server->stop(kGrace);
  take_as_regular_end(SIGTERM);  // as service managers expect
  return server->lost();
}

}  // namespace meg::tools
