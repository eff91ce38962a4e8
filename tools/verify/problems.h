#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "libmeg/base/problem.h"

namespace meg::tools {

/// Prints a line for each, on standard output.
void print_problems(std::span<const Problem> problems);

/// The same for --json: a list of objects.
nlohmann::ordered_json problems_json(std::span<const Problem> problems);

/// The library's notes for --json.
nlohmann::ordered_json notes_json(std::span<const std::string> notes);

}  // namespace meg::tools
