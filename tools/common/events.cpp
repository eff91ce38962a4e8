#include "tools/common/events.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

namespace meg::tools {
namespace {

/// -1 where nobody asked for events.
int events_descriptor() {
  static const int descriptor = [] {
    int number = -1;
    const char* const text = std::getenv("LIBMEG_EVENTS_FD");
    if (text != nullptr) std::from_chars(text, text + std::strlen(text), number);
    return number;
  }();
  return descriptor;
}

void send(const nlohmann::ordered_json& event) {
  const std::string line =
      event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  // One write, so that lines of several threads do not mix.
  (void)!::write(events_descriptor(), line.data(), line.size());
}

}  // namespace

void send_error(const Status& status) {
  if (events_descriptor() < 0) return;
  send({{"event", "error"},
        {"code", status_code_name(status.code())},
        {"message", status.message()}});
}

void send_message(std::string_view kind, std::string_view text) {
  if (events_descriptor() < 0) return;
  send({{"event", kind}, {"message", text}});
}

void send_progress(const Progress& progress) {
  if (events_descriptor() < 0) return;
  send({{"event", "progress"},
        {"documents", progress.documents},
        {"tokens", progress.tokens},
        {"bytes", progress.bytes},
        {"total_bytes", progress.total_bytes},
        {"total_documents", progress.total_documents},
        {"counted", progress.counted}});
}

}  // namespace meg::tools
