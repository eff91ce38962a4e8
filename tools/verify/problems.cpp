#include "tools/verify/problems.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/common/field_flags.h"

namespace meg::tools {

using nlohmann::ordered_json;

void print_problems(std::span<const Problem> problems) {
  for (const Problem& problem : problems) fmt::print("{}\n", with_flags(problem.message()));
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
    object["expected"] = with_flags(problem.expected);
    object["found"] = problem.found;
    object["count"] = problem.count;
    object["likely_cause"] = with_flags(problem.likely_cause);
    object["message"] = with_flags(problem.message());
  }
  return list;
}

ordered_json notes_json(std::span<const std::string> notes) {
  ordered_json list = ordered_json::array();
  for (const std::string& note : notes) list.push_back(with_flags(note));
  return list;
}

}  // namespace meg::tools
