#pragma once

#include <nlohmann/json_fwd.hpp>

namespace meg::tools {

/// An object for --json that begins with `"schema": 1`; fields keep the order in which they are
/// added.
nlohmann::ordered_json json_object();

/// Prints it on standard output, with 2 spaces a level. Bytes that are not UTF-8 become U+FFFD.
void print_json(const nlohmann::ordered_json& object);

}  // namespace meg::tools
