#include "libmeg/serving/http/request_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "libmeg/text/printable.h"

namespace meg::serving {
namespace {

constexpr size_t kShownName = 60;
constexpr size_t kShownPrompt = 60;
constexpr size_t kShownNote = 400;

/// Quotes the name only where that is needed to keep it harmless: a client must not be able to
/// begin a line of its own in the log, or to send commands to the terminal that shows it.
std::string shown(const std::string& name) {
  const std::string quoted = text::printable(name, kShownName);
  return quoted.size() == name.size() + 2 ? name : quoted;
}

}  // namespace

std::string log_line(const RequestLog& request) {
  std::string line =
      fmt::format("{:%Y-%m-%d %H:%M:%S} {} ", fmt::localtime(std::time(nullptr)), request.client);
  line += request.method.empty() ? "-" : shown(request.method) + " " + shown(request.path);
  line += fmt::format(" {} {:.1f} ms", request.status, request.seconds * 1e3);
  if (request.prompts > 0) {
    line += fmt::format(" prompts {} tokens {}+{}", request.prompts, request.prompt_tokens,
                        request.new_tokens);
  }
  if (!request.first_prompt.empty())
    line += " " + text::printable(request.first_prompt, kShownPrompt);
  if (!request.note.empty()) line += " " + text::printable_name(request.note, kShownNote);
  return line;
}

}  // namespace meg::serving
