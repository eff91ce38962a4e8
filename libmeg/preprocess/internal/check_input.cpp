#include "libmeg/preprocess/internal/check_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace meg::preprocess {

Status check_input(const std::vector<std::string>& inputs,
                   const std::vector<std::string>& json_keys,
                   std::optional<int64_t> max_documents) {
  const auto invalid = [](std::string message) {
    return Status(StatusCode::kInvalidArgument, std::move(message));
  };
  if (inputs.empty()) return invalid("`input`: expected at least one file");
  if (json_keys.empty()) return invalid("`json_keys`: expected at least one key");
  std::vector<std::string> keys = json_keys;
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end()) return invalid(fmt::format("`json_keys`: found {} twice", *twice));
  if (max_documents && *max_documents < 1) return invalid("`max_documents`: expected at least 1");
  return {};
}

}  // namespace meg::preprocess
