#include "libmeg/inference/server/request_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "libmeg/core/printable.h"

namespace meg::inference {
namespace {

constexpr size_t kShownPath = 60;
constexpr size_t kShownPrompt = 60;

std::string shown_path(const std::string& path) {
  const std::string quoted = printable(path, kShownPath);
  return quoted.size() == path.size() + 2 ? path : quoted;
}

}  // namespace

std::string log_line(const RequestLog& request) {
  std::string line =
      fmt::format("{:%Y-%m-%d %H:%M:%S} {} ", fmt::localtime(std::time(nullptr)), request.client);
  line += request.method.empty() ? "-" : request.method + " " + shown_path(request.path);
  line += fmt::format(" {} {:.1f} ms", request.status, request.seconds * 1e3);
  if (request.prompts > 0) {
    line += fmt::format(" prompts {} tokens {}+{}", request.prompts, request.prompt_tokens,
                        request.new_tokens);
  }
  if (!request.first_prompt.empty()) line += " " + printable(request.first_prompt, kShownPrompt);
  return line;
}

}  // namespace meg::inference
