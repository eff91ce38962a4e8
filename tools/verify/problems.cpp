#include "tools/verify/problems.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace meg::tools {

using nlohmann::ordered_json;

void print_problems(std::span<const Problem> problems) {
  for (const Problem& problem : problems) fmt::print("{}\n", problem.message());
}

ordered_json problems_json(std::span<const Problem> problems) {
  ordered_json list = ordered_json::array();
  for (const Problem& problem : problems) {
    ordered_json& object = list.emplace_back();
    object["check"] = problem.check;
    object["file"] = problem.file;
    if (problem.byte_offset) object["byte"] = *problem.byte_offset;
    object["subject"] = problem.subject;
    object["index"] = problem.index;
    object["expected"] = problem.expected;
    object["found"] = problem.found;
    object["count"] = problem.count;
    object["likely_cause"] = problem.likely_cause;
    object["message"] = problem.message();
  }
  return list;
}

}  // namespace meg::tools
