// Serves the checkpoints in a folder as models of a Hugging Face hub, made of Megatron's files
// while they are sent.

#include <fmt/core.h>
#include <malloc.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "libmeg/hub/hub.h"
#include "libmeg/serving/http/http_server.h"
#include "tools/common/byte_size.h"
#include "tools/common/checkpoint_tokenizer.h"
#include "tools/common/flag_groups/http_server_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/interruption.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

/// Arenas of malloc: what the connections' threads free stays in all of them.
constexpr int kArenas = 2;

struct Arguments {
  std::string root;
  HttpServerFlags server;
  int64_t max_downloads = 64;
  int64_t max_shard_bytes = 0;
  bool no_crc = false;
};

std::optional<int> parse(int argc, const char* const* argv, Arguments& arguments) {
  Flags flags("serve_checkpoints",
              "serves the checkpoints of all runs in a folder as models of a Hugging Face hub, for "
              "every program that HF_ENDPOINT directs to it. Nothing is converted on the disk.");
  flags.examples({"serve_checkpoints checkpoints --port 5000",
                  "serve_checkpoints /data/runs --host 0.0.0.0 --allowed-hosts node17 "
                  "--api-key-file key.txt"});
  flags.positional("ROOT", &arguments.root,
                   "a folder with runs, or one run: what --save wrote, of any format");
  declare_http_server_flags(flags, arguments.server);
  flags
      .value("--max-downloads", &arguments.max_downloads, "N",
             "downloads of weights at once; further ones get status 429")
      .range(1, 4096);
  flags.group("Models");
  std::string max_shard_size = "5GB";
  flags.value("--max-shard-size", &max_shard_size, "SIZE", "size limit of one file of weights");
  flags.toggle("--no-crc", &arguments.no_crc,
               "do not compare the checksums of storages before they are sent");
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  const Result<int64_t> shard_bytes = parse_byte_size(max_shard_size);
  if (!shard_bytes.has_value()) return fail_usage(shard_bytes.status());
  arguments.max_shard_bytes = *shard_bytes;
  const Status usage = check_http_server_flags(arguments.server);
  return usage.ok() ? std::nullopt : std::optional(fail_usage(usage));
}

void write_line(const std::string& line) {
  // One write, so that lines of several threads do not mix.
  const std::string whole = line + "\n";
  std::fwrite(whole.data(), 1, whole.size(), stderr);
}

Status serve(const Arguments& arguments) {
  hub::HubOptions options;
  options.rules.max_shard_bytes = static_cast<uint64_t>(arguments.max_shard_bytes);
  options.rules.check_crcs = !arguments.no_crc;
  options.rules.tokenizer = [](const checkpoint::MegatronCheckpoint& checkpoint) {
    return exported_tokenizer(checkpoint, ExportedFiles::kCarried);
  };
  options.max_downloads = static_cast<size_t>(arguments.max_downloads);
  options.log = write_line;
  MEG_ASSIGN_OR_RETURN(const serving::HttpServerOptions http,
                       http_server_options(arguments.server));
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<hub::Hub> hub,
                       hub::Hub::open(arguments.root, std::move(options)));
  MEG_ASSIGN_OR_RETURN(const hub::RepositoryList found, hub->repositories());
  stop_at_signals();
  ::mallopt(M_ARENA_MAX, kArenas);
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<serving::HttpServer> server,
                       serving::HttpServer::start(http, {hub->routes(), write_log_line}));
  fmt::print("> {}: {} {}, served on {}\n", hub->root(), found.repositories.size(),
             found.repositories.size() == 1 ? "model" : "models", server->address());
  for (const hub::Repository& repository : found.repositories) {
    fmt::print("> {}: {}\n", repository.id, repository.path);
  }
  warn_of_open_server(http, server->address());
  for (const hub::Unserved& one : found.unserved) warning(one.path + ": " + one.reason);
  std::fflush(stdout);
  // The handler of a signal may only set a flag, so that flag is polled.
  while (!interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  fmt::print("> the server is shutting down\n");
  std::fflush(stdout);
  server->stop();
  take_as_regular_end(SIGTERM);  // as service managers expect
  return {};
}

int main(int argc, const char* const* argv) {
  Arguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  const Status status = serve(arguments);
  return status.ok() ? 0 : fail(status);
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
