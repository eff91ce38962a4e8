#include "libmeg/io/internal/partial_path.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

namespace meg::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial-";

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

/// The process's number keeps processes apart and the counter threads. Two machines on one network
/// file system may still agree on both, which is why the names are created with O_EXCL or mkdir().
std::string next_partial_path(const std::string& path) {
  static std::atomic<int> counter = 0;
  return fmt::format("{}{}{}-{}", path, kPartial, ::getpid(), counter++);
}

bool is_partial_name(std::string_view name, const std::string& path) {
  const std::string start = fs::path(path).filename().string().append(kPartial);
  if (!name.starts_with(start)) return false;
  // Accept only what next_partial_path() can have made: these names are removed, so a user's
  // `x.partial-notes` must not be one.
  const std::string_view rest = name.substr(start.size());
  const size_t dash = rest.find('-');
  return dash != std::string_view::npos && is_number(rest.substr(0, dash)) &&
         is_number(rest.substr(dash + 1));
}

std::string folder_above(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

}  // namespace meg::io
