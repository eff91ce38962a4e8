#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meg::tools {

/// Pieces of an HTML page. All texts are HTML already; what comes from files goes through
/// escaped().

/// Text for HTML, from bytes that may be anything.
std::string escaped(std::string_view bytes);

/// 1234567 as 1,234,567.
std::string grouped(int64_t count);

/// 1234567 as 1.23 MB.
std::string bytes_text(double bytes);

/// Cells of a table's row.
using Row = std::vector<std::string>;

/// numbers: columns from this one on are aligned right.
std::string table(const Row& head, const std::vector<Row>& rows, size_t numbers = 100);

/// A title and what it stands over; nothing where that is empty.
std::string section(std::string_view title, const std::string& content);

/// Content that opens when its title is clicked.
std::string folded(std::string_view title, const std::string& content);

/// Parts of a whole side by side as one bar; their names are classes of the style.
std::string share_bar(const std::vector<std::pair<std::string_view, double>>& parts, int width);

using LayerValues = std::vector<std::optional<double>>;

/// A bar for every layer in the colour of `style`; what is missing leaves a gap.
std::string layer_bars(const LayerValues& values, std::string_view style);

/// Writes from <!doctype> to the title as heading; styles are inside.
std::string page_head(const std::string& title);
/// made_by: the line at the end.
std::string page_end(std::string_view made_by);

}  // namespace meg::tools
