#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meg::tools {

/// Pictures of an HTML page.

/// The page's own style.
extern const std::string_view kCheckpointStyle;

/// Parts of a whole side by side as one bar; their names are classes of the style.
std::string share_bar(const std::vector<std::pair<std::string_view, double>>& parts, int width);

using LayerValues = std::vector<std::optional<double>>;

/// A bar for every layer in the colour of `style`; what is missing leaves a gap.
std::string layer_bars(const LayerValues& values, std::string_view style);

}  // namespace meg::tools
