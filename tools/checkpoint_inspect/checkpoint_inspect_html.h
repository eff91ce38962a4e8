#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meg::tools {

/// An answer of checkpoint_inspect, with placement, args and statistics, as one HTML page that
/// needs nothing beside it: styles and pictures are inside, scripts there are none.
std::string html_page(const nlohmann::ordered_json& answer);

}  // namespace meg::tools
