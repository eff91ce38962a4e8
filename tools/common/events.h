#pragma once

#include <string_view>

#include "libmeg/base/progress.h"
#include "libmeg/base/status.h"

namespace meg::tools {

/// What a program tells the process that runs it, such as Python's functions: one line of JSON for
/// each event, on the descriptor whose number is in LIBMEG_EVENTS_FD. Without that they do nothing.
/// Where nobody reads any more, SIGPIPE ends the work.

/// {"event": "error", "code": "not_found", "message": ...}
void send_error(const Status& status);

/// {"event": KIND, "message": ...}; kind: "note" or "warning".
void send_message(std::string_view kind, std::string_view text);

/// {"event": "progress", "documents": ..., ...}: the fields of Progress.
void send_progress(const Progress& progress);

}  // namespace meg::tools
