#pragma once

#include <nlohmann/json_fwd.hpp>

namespace meg::tools {

/// Prints an answer of checkpoint_inspect for people, on standard output.
void print_answer(const nlohmann::ordered_json& answer);

}  // namespace meg::tools
