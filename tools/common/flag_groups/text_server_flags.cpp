#include "tools/common/flag_groups/text_server_flags.h"

#include <fmt/core.h>
#include <malloc.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include "tools/common/interruption.h"

namespace meg::tools {
namespace {

using std::chrono::milliseconds;

/// Arenas of malloc: the default is eight for each processor, and what the connections' threads
/// free stays in all of them.
constexpr int kArenas = 2;

serving::RequestRules request_rules(const TextServerFlags& flags) {
  serving::RequestRules rules;
  rules.sampling.temperature = flags.temperature;
  rules.sampling.top_k = flags.greedy ? 1 : flags.top_k;
  rules.sampling.top_p = flags.top_p;
  rules.max_tokens_to_generate = flags.out_seq_length;
  return rules;
}

Result<serving::TextServerOptions> server_options(const TextServerFlags& flags, int64_t seed) {
  serving::TextServerOptions options;
  MEG_ASSIGN_OR_RETURN(options.http, http_server_options(flags.http));
  options.rules = request_rules(flags);
  options.max_queue = flags.max_queue;
  options.request_timeout = milliseconds(static_cast<int64_t>(flags.request_timeout * 1e3));
  options.seed = static_cast<uint64_t>(seed);
  options.log = write_log_line;
  return options;
}

}  // namespace

void declare_text_server_flags(Flags& flags, TextServerFlags& values) {
  constexpr int64_t kMany = int64_t{1} << 30;
  declare_http_server_flags(flags, values.http);
  flags
      .value("--max-queue", &values.max_queue, "N",
             "requests that may wait for the model; further ones get status 503")
      .range(1, kMany);
  flags
      .value("--request-timeout", &values.request_timeout, "SECONDS",
             "time limit of a request, waiting included")
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
  return check_http_server_flags(flags.http);
}

Status serve_texts(const TextServerFlags& flags, serving::ServedModel model,
                   const std::string& checkpoint, int64_t seed) {
  stop_at_signals();
  ::mallopt(M_ARENA_MAX, kArenas);
  const std::string name = model.name;
  const auto facts = model.openai.facts;
  MEG_ASSIGN_OR_RETURN(serving::TextServerOptions options, server_options(flags, seed));
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<serving::TextServer> server,
                       serving::TextServer::start(options, std::move(model)));
  warn_of_open_server(options.http, server->address());
  fmt::print("> {} is served on {}\n", name, server->address());
  // For who has started it alone: clients learn no path.
  if (!checkpoint.empty()) fmt::print(">   checkpoint: {}\n", checkpoint);
  for (const auto& [fact, value] : facts) fmt::print(">   {}: {}\n", fact, value);
  std::fflush(stdout);
  // The handler of a signal may only set a flag, so that flag is polled; so is an engine that
  // cannot continue.
  while (!interrupted() && server->lost().ok()) std::this_thread::sleep_for(milliseconds(50));
  fmt::print("> the server is shutting down\n");
  std::fflush(stdout);
  server->stop(flags.grace);
  take_as_regular_end(SIGTERM);  // as service managers expect
  return server->lost();
}

}  // namespace meg::tools
