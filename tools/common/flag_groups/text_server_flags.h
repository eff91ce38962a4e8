#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "libmeg/base/status.h"
#include "libmeg/serving/text_server.h"
#include "tools/common/flag_groups/http_server_flags.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

/// How a text generation server answers, by its flags.
struct TextServerFlags {
  HttpServerFlags http;
  int64_t out_seq_length = 1024;
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 0;
  bool greedy = false;
  int64_t max_queue = 256;
  double request_timeout = 600;
  /// How long texts that are being generated may continue when the server should end. No flag.
  std::chrono::milliseconds grace = std::chrono::seconds(10);
};

void declare_text_server_flags(Flags& flags, TextServerFlags& values);

/// kInvalidArgument for flags that cannot be combined: wrong usage.
Status check_text_server_flags(const TextServerFlags& flags);

/// Serves until SIGINT, SIGTERM or SIGHUP; then running requests may finish, and the others are
/// refused. Says on standard output where it listens, and writes a line for each request on
/// standard error. checkpoint: what it calls the model's source there; empty: nothing. seed: of
/// what is drawn for requests that name none. Errors: those of listening; the error that the engine
/// does not recover from, which ends the server, too.
Status serve_texts(const TextServerFlags& flags, serving::ServedModel model,
                   const std::string& checkpoint, int64_t seed);

}  // namespace meg::tools
