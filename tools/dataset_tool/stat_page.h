#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meg::tools {

/// A page with pictures of what `dataset_tool stat --json` answers, complete in itself.
std::string stat_page(const nlohmann::ordered_json& answer);

}  // namespace meg::tools
