#include "tools/common/report.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "libmeg/text/terminal_text.h"
#include "tools/common/byte_size.h"
#include "tools/common/events.h"
#include "tools/common/field_flags.h"

namespace meg::tools {
namespace {

/// One write, so that lines of several threads do not mix.
void print_line(std::string_view kind, std::string_view text) {
  const std::string line = fmt::format("{}: {}\n", kind, text::terminal_text(with_flags(text)));
  // Where both go to one terminal or file, what was printed before stands before.
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

int fail(const Status& status) {
  // A file's name may have line ends in it.
  std::string message = status.message();
  for (size_t at = 0; (at = message.find('\n', at)) != message.npos;) message.replace(at, 1, "\\n");
  print_line("error", message);
  send_error(Status(status.code(), std::move(message)));
  return 1;
}

int fail_usage(const Status& status) {
  fail(status);
  return kUsageError;
}

int fail_by_code(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument ? fail_usage(status) : fail(status);
}

void print_written_dataset(const std::string& prefix, bool is_view) {
  const std::array<std::string, 2> files = {prefix + ".idx", prefix + ".bin"};
  fmt::print("{}\n", written_text(prefix + ".{bin,idx}", std::span(files).first(is_view ? 1 : 2)));
}

void note_new_folders(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder = fs::path(path).lexically_normal().parent_path();
  fs::path first = folder.parent_path();
  if (fs::exists(folder, ignored) || first.empty() || fs::exists(first, ignored)) return;
  while (!first.parent_path().empty() && !fs::exists(first.parent_path(), ignored)) {
    first = first.parent_path();
  }
  note(fmt::format("{}: a new folder, as are those above it from {} on", folder.string(),
                   first.string()));
}

void note(std::string_view text) {
  print_line("note", text);
  send_message("note", text);
}

void warning(std::string_view text) {
  print_line("warning", text);
  send_message("warning", text);
}

}  // namespace meg::tools
