#include "tools/common/json_output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace meg::tools {

nlohmann::ordered_json json_object() { return {{"schema", 1}}; }

void print_json(const nlohmann::ordered_json& object) {
  // Names in files may be no UTF-8, for which dump() would throw.
  fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace meg::tools
